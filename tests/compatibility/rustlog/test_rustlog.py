"""RustLog's protocol against a real broker: the bytes and texts of its tables, in both forms."""

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import Broker, BrokerProcess
from tests.support.rustlog_client import (
    LIST_TOPICS,
    METRICS,
    PING,
    Fetched,
    RefusedError,
    RustLogClient,
    create_topic,
    describe_partition,
    fetch,
    frame,
    produce,
    read_error,
    string,
)

FRAME_MAX = 10_485_760
KIB = 1 << 10


@pytest.fixture
def client(broker: Broker) -> Iterator[RustLogClient]:
    """One connection."""
    with RustLogClient(broker.address) as client:
        yield client


@pytest.fixture
def made(client: RustLogClient, topic: str) -> str:
    """A topic with two partitions."""
    client.create(topic, 2)
    return topic


def error(code: int, text: str) -> bytes:
    """Return the bytes of an error response."""
    data = text.encode()
    return b"\xfe" + struct.pack(">HH", code, len(data)) + data


# ---- the binary form, byte by byte ------------------------------------------------------------


def test_the_examples_of_the_protocol_description_are_answered_byte_for_byte(
    client: RustLogClient, topic: str
) -> None:
    assert client.ask(PING) == b"\xff"
    assert client.ask(create_topic(topic, 1)) == b"\x05\x01"
    assert client.ask(produce(topic, 0, [b"hi"])) == bytes.fromhex("01000000000000000000000001")
    assert client.ask(fetch(topic, 0, 99, 1 * KIB)) == bytes.fromhex("02000000000000000000000063")
    assert client.ask(fetch(topic, 0, 0, 1 * KIB)) == bytes.fromhex(
        "0200000001000000026869" + "0000000000000001"
    )
    assert client.ask(b"\x04" + string("g") + string(topic) + bytes(4)) == b"\x04\x00"
    assert client.ask(b"\x03" + string("g") + string(topic) + bytes(4) + bytes(8)) == b"\x03\x01"
    assert client.ask(b"\x04" + string("g") + string(topic) + bytes(4)) == b"\x04\x01" + bytes(8)


def test_every_error_has_the_code_and_the_text_of_the_original(
    client: RustLogClient, made: str
) -> None:
    missing = f"Topic or partition does not exist: topic={made}, partition=2"
    cases = {
        b"\x0b": error(2, "Decode error: unknown request type: 11"),
        b"\x01\x00": error(2, "Decode error: decode error: missing topic length"),
        produce(made, 2, [b"x"]): error(10, missing),
        fetch(made, 2, 0, 9): error(10, missing),
        produce("no-such", 0, []): error(
            10, "Topic or partition does not exist: topic=no-such, partition=0"
        ),
        create_topic(made, 2): error(11, f"Topic '{made}' already exists"),
        create_topic(made, 0): error(12, "Invalid partition count: 0"),
        create_topic("t", 10_001): error(12, "Invalid partition count: 10001"),
        create_topic("t", 2**32 - 1): error(12, "Invalid partition count: 4294967295"),
        b"\x07" + string("no-such"): error(13, "DescribeTopic failed: Topic 'no-such' not found"),
        describe_partition(made, 9): error(
            14, f"DescribePartition failed: Partition 9 not found in topic '{made}'"
        ),
        describe_partition("no-such", 0): error(
            14, "DescribePartition failed: Partition 0 not found in topic 'no-such'"
        ),
    }
    for request, answer in cases.items():
        assert client.ask(request) == answer
    client.ping()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "../x", "a\0b", "\N{SNOWMAN}"])
def test_an_invalid_topic_name_is_refused_with_this_brokers_own_text(
    client: RustLogClient, name: str
) -> None:
    code, text = read_error(client.ask(create_topic(name, 1)))

    assert code == 500
    assert text.startswith("Failed to create topic: a topic name has 1 to 249")
    assert read_error(client.ask(produce(name, 0, [b"x"])))[0] == 10


def test_a_topic_name_of_the_longest_string_is_refused_with_a_whole_response(
    client: RustLogClient,
) -> None:
    for request in (create_topic, lambda name, number: produce(name, number, [b"x"])):
        code, text = read_error(client.ask(request("x" * 65_535, 1)))
        assert code in (10, 500)
        assert len(text) <= 65_535
    client.ping()


def test_a_topic_name_of_the_longest_length_works(client: RustLogClient, topic: str) -> None:
    name = topic.ljust(249, "x")
    client.create(name)

    assert client.produce(name, [b"a"]) == 0
    assert read_error(client.ask(create_topic(name + "x", 1)))[0] == 500


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (0, error(1, "Frame error: invalid protocol: zero-length frame")),
        (
            FRAME_MAX + 1,
            error(1, "Frame error: frame too large: 10485761 bytes (max: 10485760)"),
        ),
        (
            2**32 - 1,
            error(1, "Frame error: frame too large: 4294967295 bytes (max: 10485760)"),
        ),
    ],
)
def test_an_invalid_frame_length_is_reported_and_closes_the_connection(
    client: RustLogClient, head: int, answer: bytes
) -> None:
    client.ping()
    client.send(struct.pack(">I", head))

    assert client.receive() == answer
    client.expect_closed()


def test_a_frame_above_the_limit_is_reported_in_json_to_a_json_client(
    client: RustLogClient,
) -> None:
    client.send(struct.pack(">I", FRAME_MAX + 1) + b'{"Fetch":{')

    assert client.receive() == b'{"Error":{"message":"max frame size exceeded"}}'
    client.expect_closed()


def test_a_record_may_fill_a_whole_frame(client: RustLogClient, topic: str) -> None:
    client.create(topic)
    largest = random.Random(topic).randbytes(FRAME_MAX - 15 - len(topic))
    assert len(produce(topic, 0, [largest])) == FRAME_MAX

    assert client.produce(topic, [largest]) == 0
    assert client.produce(topic, [b"next"]) == 1

    # The response has 17 bytes more, the request had 15 and the topic.
    assert client.read_all(topic) == {0: largest, 1: b"next"}
    assert client.ask_json(fetch_of(topic, 0)) == {
        "Error": {
            "message": "fetch failed: the record at offset 0 does not fit into a frame: it has"
            f" {len(largest)} bytes; go on at offset 1"
        }
    }


def test_many_records_of_one_request_get_consecutive_offsets(
    client: RustLogClient, made: str
) -> None:
    assert client.produce(made, [b"first"]) == 0

    values = [b"%d" % number for number in range(250_000)]

    assert client.produce(made, values) == 1
    assert list(client.read_all(made, 1).values()) == values


def test_max_bytes_counts_bytes_as_the_original_stores_them(
    client: RustLogClient, made: str
) -> None:
    client.produce(made, [b"x", b"", b"y"])

    counts = [len(client.fetch(made, 0, size).records) for size in (0, 1, 24, 25, 37, 38)]
    assert counts == [0, 1, 1, 2, 2, 3]
    assert client.fetch(made, 0, 0) == Fetched([], 0)


@pytest.mark.parametrize("offset", [3, 99, 2**63, 2**64 - 1])
def test_beyond_the_end_the_next_offset_is_the_requested_one(
    client: RustLogClient, made: str, offset: int
) -> None:
    client.produce(made, [b"x", b"", b"y"])

    assert client.fetch(made, offset) == Fetched([], offset)


def test_a_fetch_with_a_group_starts_at_the_committed_offset_alone(
    client: RustLogClient, made: str
) -> None:
    client.produce(made, [b"a", b"b", b"c"])
    group = f"of-{made}"

    assert client.fetch(made, 1, group=group) == Fetched([], 0)
    assert client.fetch("no-such", 1, group=group) == Fetched([], 0)
    client.commit(group, made, 2)
    assert client.fetch(made, 0, group=group) == Fetched([b"c"], 3)
    assert client.committed(group, made) == 2
    client.commit(group, made, 1)
    assert client.fetch(made, 3, group=group) == Fetched([b"b", b"c"], 3)


def test_a_commit_for_an_unknown_topic_applies_once_the_topic_is_created(
    client: RustLogClient, topic: str
) -> None:
    client.commit("early", topic, 5, partition=3)
    assert client.committed("early", topic, 3) == 5

    client.create(topic, 4)
    client.produce(topic, [b"%d" % number for number in range(7)], partition=3)

    assert client.fetch(topic, 0, partition=3, group="early") == Fetched([b"5", b"6"], 7)


@pytest.mark.parametrize(
    ("group", "name", "offset"),
    [("g" * 1_025, "t", 0), ("g", "a/b", 0), ("g", "", 0), ("g", "t", 2**63)],
)
def test_an_invalid_commit_is_refused(
    client: RustLogClient, group: str, name: str, offset: int
) -> None:
    with pytest.raises(RefusedError, match="Offset commit failed: ") as caught:
        client.commit(group, name, offset)
    assert caught.value.code == 5


def test_the_empty_string_is_a_valid_group_name(client: RustLogClient, made: str) -> None:
    client.commit("", made, 7)

    assert client.committed("", made) == 7


def test_topics_are_listed_in_order_and_described(client: RustLogClient, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "bca"]
    for count, name in enumerate(names, 1):
        client.create(name, count)
    client.produce(names[1], [b"a", b"b"], partition=1)
    client.commit("makes-an-internal-topic", names[0], 0)

    listed = client.ask(LIST_TOPICS)
    rows = [string(name) + struct.pack(">I", count) for count, name in enumerate(names, 1)]
    assert listed[0] == 6
    assert listed.index(rows[2]) < listed.index(rows[0]) < listed.index(rows[1])
    assert b"__consumer_offsets" not in listed
    assert client.ask(b"\x07" + string(names[1])) == (
        b"\x07" + string(names[1]) + struct.pack(">II", 2, 2)
        + struct.pack(">IQ", 0, 0) + struct.pack(">IQ", 1, 2)
    )  # fmt: skip
    assert client.high_watermark(names[1], 1) == 2


def test_metrics_are_counted(client: RustLogClient, made: str) -> None:
    def metrics() -> dict[str, str]:
        payload = client.ask(METRICS)
        assert payload[0] == 9
        assert len(payload) == 5 + int.from_bytes(payload[1:5])
        lines = [each for each in payload[5:].decode().splitlines() if each[0] != "#"]
        return dict(line.rsplit(" ", 1) for line in lines)

    before = metrics()
    client.produce(made, [b"abc", b"de"])
    client.fetch(made, 0)
    client.fetch(made, 1)
    client.commit("of-metrics", made, 1)
    after = metrics()

    grown = {name: int(after[name]) - int(before[name]) for name in before if name in after}
    assert grown["messages_produced_total"] == 2
    assert grown["bytes_in_total"] == 5
    assert grown["messages_fetched_total"] == 3
    assert grown["bytes_out_total"] == 7
    assert int(after["active_connections"]) >= 1
    for what in ("produce", "fetch"):
        shares = [int(after[f"{what}_latency_ns_{share}"]) for share in ("p50", "p95", "p99")]
        assert 0 < shares[0] <= shares[1] <= shares[2] < 10**10
    assert after[f'consumer_lag{{topic="{made}",partition="0",group="of-metrics"}}'] == "1"


def test_pipelined_requests_are_answered_in_order(client: RustLogClient, made: str) -> None:
    client.send(
        b"".join(frame(produce(made, 0, [b"%d" % number])) for number in range(100))
        + frame(fetch(made, 0, 0, 1 << 20))
        + frame(json.dumps({"OffsetFetch": offset_of("none", made)}).encode())
        + frame(PING)
    )

    answers = [client.receive() for _ in range(103)]
    assert [int.from_bytes(each[1:9]) for each in answers[:100]] == list(range(100))
    assert answers[100][1:5] == (100).to_bytes(4)
    assert answers[101:] == [b'{"OffsetFetch":{"offset":null}}', PING]


def test_a_listener_can_be_limited_to_rustlog(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, listen="rustlog://127.0.0.1:0")
    broker.start()
    try:
        with RustLogClient(broker.address) as client:
            client.send(struct.pack(">I", FRAME_MAX + 1))  # it could still be Kafka
            assert read_error(client.receive())[0] == 1
        with RustLogClient(broker.address) as client:
            kafka = struct.pack(">hhih", 18, 0, 7, -1)
            code, text = read_error(client.ask(kafka))
            assert (code, text) == (2, "Decode error: unknown request type: 0")
    finally:
        assert broker.stop() == 0


# ---- the JSON form ----------------------------------------------------------------------------


def offset_of(group: str, topic: str, partition: int = 0) -> dict[str, Any]:
    """Return the fields of an OffsetFetch."""
    return {"topic": topic, "partition": partition, "group_id": group}


def fetch_of(topic: str, offset: int, max_bytes: int = 1 << 20, **more: Any) -> dict[str, Any]:
    """Return a Fetch request."""
    fields = {"topic": topic, "partition": 0, "offset": offset, "max_bytes": max_bytes}
    return {"Fetch": {**fields, **more}}


def test_the_documented_sequence_of_json_requests_is_answered_as_documented(
    client: RustLogClient, made: str
) -> None:
    def produced(records: list[list[int]]) -> Any:
        fields = {"topic": made, "partition": 0, "records": records}
        return client.ask_json({"Produce": fields})

    assert produced([[10, 20], [30, 40]]) == {"Produce": {"offsets": [0, 1]}}
    assert produced([[50, 60]]) == {"Produce": {"offsets": [2]}}
    assert produced([]) == {"Produce": {"offsets": []}}
    group = f"processor-{made}"
    first = client.ask_json(fetch_of(made, 0, 4, group_id=group))
    assert first == {
        "Fetch": {
            "records": [{"offset": 0, "payload": [10, 20]}, {"offset": 1, "payload": [30, 40]}],
            "next_offset": 2,
        }
    }
    assert client.ask_json({"OffsetFetch": offset_of(group, made)}) == {
        "OffsetFetch": {"offset": None}
    }
    commit = {"OffsetCommit": {**offset_of(group, made), "offset": 2}}
    assert client.ask_json(commit) == {"OffsetCommit": {"success": True}}
    assert client.ask_json({"OffsetFetch": offset_of(group, made)}) == {
        "OffsetFetch": {"offset": 2}
    }
    rest = {"Fetch": {"records": [{"offset": 2, "payload": [50, 60]}], "next_offset": 3}}
    assert client.ask_json(fetch_of(made, 0, group_id=group)) == rest
    assert client.ask_json(fetch_of(made, 3, group_id=group)) == {
        "Fetch": {"records": [], "next_offset": 3}
    }
    assert client.ask_json(fetch_of(made, 0, 4, group_id=None)) == first
    assert client.ask_json(fetch_of(made, 0, 4)) == first, "what a group commits is its own"
    assert client.ask_json(fetch_of(made, 0, 4, group_id=f"other-{made}")) == first


def test_beyond_the_end_the_next_offset_in_json_is_the_log_end(
    client: RustLogClient, made: str
) -> None:
    client.produce(made, [b"a", b"b"])

    for offset in (2, 3, 2**64 - 1):
        assert client.ask_json(fetch_of(made, offset)) == {
            "Fetch": {"records": [], "next_offset": 2}
        }


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (fetch_of("no-such", 0), "partition not found: topic=no-such, partition=0"),
        (
            {"Produce": {"topic": "no-such", "partition": 99, "records": []}},
            "partition not found: topic=no-such, partition=99",
        ),
        ({"CreateTopic": {}}, "failed to parse request"),
        ({"Fetch": {}}, "failed to parse request"),
        ({}, "failed to parse request"),
    ],
)
def test_an_error_is_returned_and_the_connection_stays_open(
    client: RustLogClient, request_: dict[str, Any], answer: str
) -> None:
    assert client.ask_json(request_) == {"Error": {"message": answer}}
    client.ping()


def test_a_partition_that_the_topic_does_not_have_is_not_found(
    client: RustLogClient, made: str
) -> None:
    message = f"partition not found: topic={made}, partition=2"
    place = {"topic": made, "partition": 2}

    for request_ in (
        {"Produce": {**place, "records": [[1]]}},
        {"Fetch": {**place, "offset": 0, "max_bytes": 1}},
    ):
        assert client.ask_json(request_) == {"Error": {"message": message}}


def test_a_json_commit_for_an_unknown_partition_does_not_succeed(
    client: RustLogClient, made: str
) -> None:
    for topic, partition in (("no-such", 0), (made, 2)):
        commit = {"OffsetCommit": {**offset_of("g", topic, partition), "offset": 1}}
        assert client.ask_json(commit) == {"OffsetCommit": {"success": False}}


def test_a_response_has_as_many_records_as_a_frame_can_carry(
    client: RustLogClient, made: str
) -> None:
    for _ in range(12):
        client.produce(made, [b"\xff" * 1_000_000])

    text = client.ask(json.dumps(fetch_of(made, 0, 2**64 - 1)).encode())
    [*records] = json.loads(text)["Fetch"]["records"]
    assert [each["offset"] for each in records] == [0, 1]
    assert len(client.fetch(made, 0, 2**32 - 1).records) == 10
    assert len(client.read_all(made)) == 12


def test_binary_and_json_clients_write_and_read_the_same_log(
    client: RustLogClient, made: str
) -> None:
    assert client.produce(made, [b"\x00\xff"]) == 0
    fields = {"topic": made, "partition": 0, "records": [[0, 255], []]}
    assert client.ask_json({"Produce": fields}) == {"Produce": {"offsets": [1, 2]}}

    assert client.read_all(made) == {0: b"\x00\xff", 1: b"\x00\xff", 2: b""}
    assert client.ask_json(fetch_of(made, 1, 0)) == {
        "Fetch": {"records": [{"offset": 1, "payload": [0, 255]}], "next_offset": 2}
    }
