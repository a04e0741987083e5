"""Event sourcing: streams of versioned events, as the event stores of Cursus's clients use them."""

import struct
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from broker.codec import encode, records
from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient

POLICY_VIOLATION, INVALID_CONFIG, INVALID_PARTITIONS = 44, 40, 37
KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
}


@pytest.fixture
def store(broker: Broker) -> Iterator[EventStore]:
    """An event store with a new topic of two partitions."""
    with EventStore(broker.address, f"es-{uuid.uuid4().hex[:8]}") as found:
        found.create(2)
        yield found


@pytest.fixture
def wire(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.address) as client:
        yield client


def payloads(store: EventStore, key: str, from_version: int = 0, *, limit: int = 0) -> list[bytes]:
    return [each.payload for each in store.read(key, from_version, limit=limit).events]


def stored(wire: WireClient, topic: str, partition: int) -> list[Any]:
    return list(records(wire_requests.fetch(wire, topic, partition, 0)))


# ---- appends and reads ---------------------------------------------------------------------------


def test_events_get_the_versions_that_were_expected(store: EventStore) -> None:
    first = store.append("order-1", 1, "placed")
    second = store.append("order-1", 2, "paid", metadata="by=card")
    other = store.append("order-2", 1, "placed")

    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert (store.version("order-1"), store.version("order-2")) == (2, 1)
    assert store.version("order-3") == 0
    snapshot, events = store.read("order-1")
    assert snapshot is None
    assert [
        (each.aggregate_version, each.offset, each.payload, each.metadata) for each in events
    ] == [(1, first.offset, b"placed", b""), (2, second.offset, b"paid", b"by=card")]
    assert {(each.event_type, each.schema_version, each.key) for each in events} == {
        (b"Happened", 1, b"order-1")
    }


def test_another_version_than_the_next_is_a_conflict(store: EventStore) -> None:
    for version in (0, 2):
        with pytest.raises(RefusedError, match=f"version_conflict current=0 expected={version}"):
            store.append("a", version, "early")
    store.append("a", 1, "x")

    for version in (1, 3, 0):
        with pytest.raises(RefusedError, match=f"version_conflict current=1 expected={version}"):
            store.append("a", version, "again")

    assert payloads(store, "a") == [b"x"]


def test_of_appends_at_once_one_gets_each_version(broker: Broker, store: EventStore) -> None:
    writers, events = 4, 25
    won: list[tuple[int, str]] = []

    def write(name: str) -> None:
        with EventStore(broker.address, store.topic) as own:
            version = 0
            while version < events:
                payload = f"{name}-{version + 1}"
                try:
                    own.append("hot", version + 1, payload)
                except RefusedError:
                    version = own.version("hot")
                else:
                    version += 1
                    won.append((version, payload))

    threads = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [version for version, _ in sorted(won)] == list(range(1, events + 1))
    assert payloads(store, "hot") == [payload.encode() for _, payload in sorted(won)]


def test_pipelined_appends_are_answered_in_order(store: EventStore) -> None:
    client = store.connection
    for version in range(1, 51):
        client.send(envelope(store.append_command("k", version, f"e{version}")))
    client.send(envelope(store.append_command("k", 50, "late")))
    client.send(envelope(f"STREAM_VERSION topic={store.topic} key=k"))

    answers = [client.frame() or b"" for _ in range(52)]

    assert [each.split()[1] for each in answers[:50]] == [b"version=%d" % n for n in range(1, 51)]
    assert answers[50] == b"ERROR: version_conflict current=50 expected=50"
    assert answers[51] == b"OK version=50"


def test_a_stream_is_read_from_a_version_on(store: EventStore) -> None:
    for version in range(1, 8):
        store.append("k", version, f"e{version}")
        store.append("other", version, "x" * 200)

    assert payloads(store, "k", 3) == [b"e3", b"e4", b"e5", b"e6", b"e7"]
    assert payloads(store, "k", 7) == [b"e7"]
    assert payloads(store, "k", 8) == payloads(store, "nothing") == []
    assert payloads(store, "k", 2, limit=3) == [b"e2", b"e3", b"e4"]


def test_the_frames_of_a_read_are_a_description_and_a_batch(store: EventStore) -> None:
    store.append('q"uote', 1, "x")
    client = store.connection

    description = client.answer(envelope(f'READ_STREAM topic={store.topic} key=q"uote'))
    events = read_batch(client.frame() or b"")

    place = events.partition
    assert description == (
        b'{"status":"OK","topic":"%s","key":"q\\"uote","partition":%d,"count":1}'
        % (store.topic.encode(), place)
    )
    assert (events.topic.decode(), events.acks) == (store.topic, b"1")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("APPEND_STREAM topic={t} version=1 message=m", "missing_key command=APPEND_STREAM"),
        ("APPEND_STREAM topic={t} key=k message=m", "missing_version command=APPEND_STREAM"),
        ("APPEND_STREAM topic={t} key=k version=1", "missing_message command=APPEND_STREAM"),
        ("APPEND_STREAM topic={t} key=k version=x message=m", "invalid_version"),
        ("APPEND_STREAM topic={t} key=k version=-1 message=m", "invalid_version"),
        (
            "APPEND_STREAM topic={t} key=k version=1 schema_version=4294967296 message=m",
            "invalid_schema_version",
        ),
        (
            "SAVE_SNAPSHOT topic={t} key=k version=0 message=m",
            "invalid_version command=SAVE_SNAPSHOT",
        ),
        (
            "SAVE_SNAPSHOT topic={t} key=k version=9 message=m",
            "snapshot_version_exceeds_stream version=9 current=0",
        ),
        ("READ_SNAPSHOT topic={t}", "missing_key command=READ_SNAPSHOT"),
        (
            f"STREAM_VERSION topic={{t}} key={'k' * 1025}",
            'invalid_key reason="at most 1024 bytes, none is 0"',
        ),
    ],
)
def test_an_invalid_command_is_refused_with_its_reason(
    store: EventStore, command: str, answer: str
) -> None:
    assert store.connection.ask(command.format(t=store.topic)) == f"ERROR: {answer}"
    assert store.version("k") == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("topic={t} key=k from_version=0", "invalid_from_version"),
        ("topic={t} key=k from_version=x", "invalid_from_version"),
        ("topic={t} key=k limit=-1", "invalid_limit"),
        ("topic={t}", "missing_key command=READ_STREAM"),
    ],
)
def test_a_read_is_refused_in_one_frame_of_json(
    store: EventStore, arguments: str, error: str
) -> None:
    answer = store.connection.ask(f"READ_STREAM {arguments.format(t=store.topic)}")

    assert answer == f'{{"error":"{error}","status":"ERROR"}}'
    assert store.version("k") == 0, "nothing follows the frame"


def test_a_topic_without_event_sourcing_has_no_streams(broker: Broker, topic: str) -> None:
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1")

        for command in ("APPEND_STREAM", "STREAM_VERSION", "SAVE_SNAPSHOT", "READ_SNAPSHOT"):
            answer = client.ask(f"{command} topic={topic} key=k version=1 message=m")
            assert answer == f"ERROR: event_sourcing_not_enabled topic={topic}"
        answer = client.ask(f"CREATE topic={topic} event_sourcing=true")
        assert answer.startswith("ERROR: unsupported_topic_policy policy=event_sourcing reason=")


def test_a_stream_that_does_not_fit_into_a_frame_is_read_in_parts(store: EventStore) -> None:
    large = "x" * (6 << 20)
    for version in range(1, 4):
        store.append("large", version, large)

    with pytest.raises(RefusedError, match=r"stream_too_long reason=.*read it in parts"):
        store.read("large")

    assert len(payloads(store, "large", 1, limit=9)) == 2
    assert payloads(store, "large", 3, limit=9) == [large.encode()]


# ---- snapshots -----------------------------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_the_events_before_it(store: EventStore) -> None:
    for version in range(1, 6):
        store.append("k", version, f"e{version}")
    assert store.read_snapshot("k") is None
    assert store.save_snapshot("k", 3, '{"total": "3 €"}').startswith("OK version=3 partition=")

    assert store.read_snapshot("k") == (3, '{"total": "3 €"}')
    snapshot, events = store.read("k")
    assert snapshot == (3, '{"total": "3 €"}')
    assert [each.aggregate_version for each in events] == [4, 5]
    assert store.read("k", 3).snapshot == snapshot
    assert store.read("k", 4).snapshot is None
    assert payloads(store, "k", 4) == [b"e4", b"e5"]
    store.save_snapshot("k", 5, "5")
    assert store.read("k") == ((5, "5"), [])
    with pytest.raises(RefusedError, match="snapshot_version_exceeds_stream version=9 current=5"):
        store.save_snapshot("k", 9, "9")


def test_a_reader_of_the_topic_gets_the_events_and_no_snapshots(store: EventStore) -> None:
    place = store.append("k", 1, "e1").partition
    store.save_snapshot("k", 1, "s1")
    store.append("k", 2, "e2")

    found = store.connection.consume(f"CONSUME topic={store.topic} partition={place} offset=0")

    assert [(each.payload, each.aggregate_version) for each in found.messages] == [
        (b"e1", 1),
        (b"e2", 2),
    ]


# ---- other protocols -----------------------------------------------------------------------------


def test_kafkas_clients_read_events_as_records_with_headers(
    store: EventStore, wire: WireClient
) -> None:
    event = store.append("k", 1, "e1", metadata="m=1")
    store.save_snapshot("k", 1, "s1")

    first, snapshot = stored(wire, store.topic, event.partition)

    assert (first.offset, first.key, first.value) == (event.offset, b"k", b"e1")
    assert first.headers == [
        (b"cursus.producer_id", b"store"),
        (b"cursus.event_type", b"Happened"),
        (b"cursus.schema_version", b"1"),
        (b"cursus.aggregate_version", b"1"),
        (b"cursus.metadata", b"m=1"),
    ]
    assert (snapshot.key, snapshot.value) == (b"k", b"s1")
    assert snapshot.headers == [(b"cursus.snapshot_version", b"1")]


def test_nobody_else_writes_to_a_topic_with_streams(
    broker: Broker, store: EventStore, wire: WireClient
) -> None:
    place = store.append("k", 1, "e1").partition
    [forged] = encode([(b"k", b"x", [(b"cursus.aggregate_version", b"2")])], timestamp_ms=0)

    code, _ = wire_requests.produce(wire, store.topic, forged, place)
    assert code == POLICY_VIOLATION
    client = store.connection
    answer = client.answer(batch(store.topic, place, [Message(b"x", 1, b"p", b"k")]))
    assert b'"status":"ERROR"' in answer
    assert b"has streams" in answer
    answer = client.answer(f"PUBLISH topic={store.topic} key=k producerId=p message=x")
    assert b"has streams" in answer
    with LineClient(broker.address) as line:
        assert "has streams" in line.command(f"PRODUCE {store.topic} k:x")

    assert payloads(store, "k") == [b"e1"]
    assert len(stored(wire, store.topic, place)) == 1


def test_what_would_remove_events_is_refused(store: EventStore, wire: WireClient) -> None:
    place = store.append("k", 1, "e1").partition
    resource = {"resource_type": 2, "resource_name": store.topic}
    for name, value in {
        "retention.ms": "1000",
        "retention.bytes": "1000",
        "cleanup.policy": "compact",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
        "polylog.event.sourcing": "false",
    }.items():
        change = {"name": name, "config_operation": 0, "value": value}
        body = {"resources": [{**resource, "configs": [change]}], "validate_only": False}
        [answer] = wire.request("IncrementalAlterConfigs", 1, body)["responses"]
        assert answer["error_code"] == INVALID_CONFIG, name
    partition = {"partition_index": place, "offset": 1}
    body = {"topics": [{"name": store.topic, "partitions": [partition]}], "timeout_ms": 1000}
    [topic] = wire.request("DeleteRecords", 1, body)["topics"]
    assert topic["partitions"][0]["error_code"] == POLICY_VIOLATION
    more = {"name": store.topic, "count": 3, "assignments": None}
    body = {"topics": [more], "timeout_ms": 1000, "validate_only": False}
    [result] = wire.request("CreatePartitions", 1, body)["results"]
    assert result["error_code"] == INVALID_PARTITIONS
    for options in ("cleanup_policy=compact", "retention_hours=5", "retention_bytes=5"):
        with pytest.raises(RefusedError, match="unsupported_topic_policy policy="):
            store.create(2, others=f" {options}")
    with pytest.raises(RefusedError, match="create_topic_failed"):
        store.create(3)

    assert payloads(store, "k") == [b"e1"]


def test_creating_the_topic_again_changes_nothing(store: EventStore, wire: WireClient) -> None:
    expected = f"OK topic={store.topic} partitions=2 cleanup_policy=delete partitioner=hash_key"

    assert store.create(2).startswith(expected)
    more = " cleanup_policy=delete retention_hours=0 retention_bytes=0 idempotent=true"
    assert store.create(1 + 1, others=more).startswith(expected)
    assert store.connection.ask(f"CREATE topic={store.topic}").startswith(expected)

    resource = {"resource_type": 2, "resource_name": store.topic, "configuration_keys": None}
    [found] = wire.request("DescribeConfigs", 4, {"resources": [resource]})["results"]
    configs = {each["name"]: each["value"] for each in found["configs"]}
    assert {name: configs[name] for name in KEPT} == KEPT
    assert configs["polylog.event.sourcing"] == "true"


def test_kafkas_tools_create_a_topic_with_streams(wire: WireClient, topic: str) -> None:
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    for configs, code in (({}, INVALID_CONFIG), (KEPT, 0)):
        own = {**configs, "polylog.event.sourcing": "true"}
        given = [{"name": name, "value": value} for name, value in own.items()]
        body = {"topics": [{**new, "configs": given}], "timeout_ms": 10_000}
        [answer] = wire.request("CreateTopics", 5, body)["topics"]
        assert answer["error_code"] == code


def test_a_frame_of_a_read_is_whole_however_it_is_received(store: EventStore) -> None:
    store.append("k", 1, "e1")
    command = envelope(f"READ_STREAM topic={store.topic} key=k")
    store.connection.socket.sendall((struct.pack(">I", len(command)) + command) * 20)

    for _ in range(20):
        assert (store.connection.frame() or b"").startswith(b'{"status":"OK"')
        assert len(read_batch(store.connection.frame() or b"").messages) == 1
