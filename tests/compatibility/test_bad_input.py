"""Input that no honest client sends: the right error or a closed connection, and nothing worse.

After every test the broker still serves others and has not grown, and what it closed is one line in
its log. The error codes are those of Kafka's protocol guide.
"""

import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator

import cramjam
import pytest

from tests import wire_requests
from tests.broker_process import Broker, BrokerProcess, wait_until
from tests.wire_client import API_KEY_BY_NAME, ConnectionClosedError, WireClient
from tests.wire_records import CODECS, TIMESTAMP, Batch, read_batches, varint

NONE = 0
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC_EXCEPTION = 17
INVALID_REQUIRED_ACKS = 21
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
INVALID_RECORD = 87

MIB = 1 << 20
GROWTH_MAX = 24 * MIB  # Private memory that a test may leave behind or need.
MESSAGE_BYTES_MAX = 1_048_588  # Kafka's max.message.bytes.
INT32_MAX = 0x7FFFFFFF
IDLE_CONNECTIONS = 2_000

INVALID_NAMES = ["", ".", "..", "a/b", "a b", "ü", "a" * 250, "../escape"]
APIS = ["Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"]
APIS += ["FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "CreateTopics"]
APIS += ["DeleteTopics", "InitProducerId", "DescribeConfigs", "DescribeCluster"]


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    """A connection to misuse."""
    with WireClient(broker.address) as client:
        yield client


@pytest.fixture(autouse=True)
def still_well(broker: Broker) -> Iterator[None]:
    """The broker serves others afterwards and its memory is what it was."""
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0
    yield
    assert_serves(broker)
    if isinstance(broker, BrokerProcess):
        wait_until(lambda: broker.private_memory() < before + GROWTH_MAX, "memory is given back")


@pytest.fixture
def logs_one_line(broker: Broker) -> Iterator[None]:
    """What the test does makes the broker log one line, no more."""
    before = len(broker.log_lines())
    yield
    if broker.is_ours:
        wait_until(lambda: len(broker.log_lines()) > before, "a line is logged")
        assert_serves(broker)
        assert len(broker.log_lines()) == before + 1, broker.log_lines()[before:]


def assert_serves(broker: Broker) -> None:
    """Fail unless a new connection is answered at once."""
    with WireClient(broker.address, timeout_s=5.0) as other:
        assert other.request("ApiVersions", 0, {})["error_code"] == NONE


def highest(client: WireClient, name: str) -> int:
    """Return the newest version of an API that the broker advertises."""
    [version] = [
        api["max_version"]
        for api in client.request("ApiVersions", 0, {})["api_keys"]
        if api["api_key"] == API_KEY_BY_NAME[name]
    ]
    return int(version)


# ---- frames ----


@pytest.mark.parametrize("size", [-1, -(1 << 31), INT32_MAX, 101 * MIB])
@pytest.mark.usefixtures("logs_one_line")
def test_a_frame_of_impossible_size_closes_the_connection(client: WireClient, size: int) -> None:
    client.send_bytes(struct.pack(">i", size) + b"\x00\x03\x00\x00")

    client.expect_closed()


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.usefixtures("logs_one_line")
def test_a_frame_too_short_for_its_header_closes_the_connection(
    client: WireClient, size: int
) -> None:
    client.send_frame(b"\x00\x12\x00\x00\x00\x00\x00"[:size])

    client.expect_closed()


def test_a_frame_cut_short_by_the_client_leaves_nothing(broker: Broker) -> None:
    for cut in range(1, 12):
        with WireClient(broker.address) as client:
            frame = client.frame("Metadata", 1, b"\x00\x00\x00\x00")
            client.send_bytes((struct.pack(">i", len(frame)) + frame)[:cut])


def test_a_request_that_comes_byte_by_byte_is_answered(client: WireClient) -> None:
    frame = client.frame("ApiVersions", 0, b"")

    for byte in struct.pack(">i", len(frame)) + frame:
        client.send_bytes(bytes([byte]))

    assert client.receive_frame()[:6] == frame[4:8] + b"\x00\x00"


# ---- requests ----


@pytest.mark.parametrize("key", [-1, 94, 999, 0x7FFF])
@pytest.mark.usefixtures("logs_one_line")
def test_an_unknown_api_key_closes_the_connection(client: WireClient, key: int) -> None:
    client.send_frame(struct.pack(">hhi", key, 0, 1) + b"\x00\x04wire")

    client.expect_closed()


@pytest.mark.parametrize("version", [-1, 99])
@pytest.mark.usefixtures("logs_one_line")
def test_an_unsupported_version_closes_the_connection(client: WireClient, version: int) -> None:
    client.send_frame(client.frame("Metadata", version, b"\x00\x00\x00\x00"))

    client.expect_closed()


def test_api_versions_too_new_is_answered_in_version_0_with_its_range(client: WireClient) -> None:
    client.send_frame(client.frame("ApiVersions", 99, b"\x00"))

    frame = client.receive_frame()
    correlation_id, code, count, key, low, high = struct.unpack(">ihihhh", frame)
    assert (correlation_id, code) == (1, UNSUPPORTED_VERSION)
    assert (count, key, low) == (1, API_KEY_BY_NAME["ApiVersions"], 0)
    assert high == highest(client, "ApiVersions")


@pytest.mark.parametrize("body", [b"", b"\xff" * 40, b"\x7f" * 40], ids=["empty", "ff", "7f"])
@pytest.mark.parametrize("name", APIS)
@pytest.mark.usefixtures("logs_one_line")
def test_a_malformed_body_closes_the_connection(client: WireClient, name: str, body: bytes) -> None:
    client.send_frame(client.frame(name, highest(client, name), body))

    client.expect_closed()


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("Metadata", 1, struct.pack(">i", INT32_MAX)),
        ("Metadata", 9, b"\xff\xff\xff\xff\x0f"),
        ("Metadata", 9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("Produce", 8, struct.pack(">hhii", -1, 1, 1000, INT32_MAX)),
        ("Produce", 9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x0f"),
        ("Fetch", 11, struct.pack(">iiiibiii", -1, 0, 1, 1, 0, 0, -1, INT32_MAX)),
        ("Fetch", 12, struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + b"\xff\xff\xff\xff\x0f"),
        ("CreateTopics", 4, struct.pack(">i", INT32_MAX)),
    ],
)
@pytest.mark.usefixtures("logs_one_line")
def test_a_count_larger_than_its_frame_closes_the_connection(
    client: WireClient, name: str, version: int, body: bytes
) -> None:
    client.send_frame(client.frame(name, version, body))

    client.expect_closed()


def test_acks_that_do_not_exist_are_refused(client: WireClient, topic: str) -> None:
    wire_requests.create_topic(client, topic)

    code, _ = wire_requests.produce(client, topic, Batch().encode(), acks=2)

    assert code == INVALID_REQUIRED_ACKS
    assert wire_requests.end_offset(client, topic) == 0


def test_an_error_without_acks_closes_the_connection(client: WireClient, topic: str) -> None:
    wire_requests.create_topic(client, topic)
    body = wire_requests.produce_body(topic, [(0, Batch(crc=1).encode())], acks=0)

    client.send("Produce", wire_requests.PRODUCE_VERSION, body)

    client.expect_closed()


# ---- batches ----

GOOD = Batch([b"a", b"b"])
BAD_BATCHES = {
    "wrong CRC": (Batch(crc=0x12345678).encode(), {CORRUPT_MESSAGE}),
    "a flipped bit": (GOOD.encode()[:-1] + b"\x7f", {CORRUPT_MESSAGE}),
    "a length beyond the end": (Batch(length=5_000).encode(), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a length inside the header": (Batch(length=20).encode(), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a negative length": (Batch(length=-1).encode(), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "half a header": (Batch().encode()[:30], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a count too high": (Batch(count=9).encode(), {INVALID_RECORD}),
    "no records": (Batch([], last_offset_delta=-1).encode(), {INVALID_RECORD}),
    "a negative count": (Batch(count=-1, last_offset_delta=-2).encode(), {INVALID_RECORD}),
    "more records than bytes": (
        Batch(count=INT32_MAX, last_offset_delta=INT32_MAX - 1).encode(),
        {INVALID_RECORD},
    ),
    "magic 0": (Batch(magic=0).encode(), {INVALID_RECORD}),
    "magic 1": (Batch(magic=1).encode(), {INVALID_RECORD}),
    "magic 3": (Batch(magic=3).encode(), {INVALID_RECORD, CORRUPT_MESSAGE}),
    "a control batch": (Batch(attributes=0x20).encode(), {INVALID_RECORD}),
    "two batches": (GOOD.encode() * 2, {INVALID_RECORD}),
    "nothing": (b"", {INVALID_RECORD, CORRUPT_MESSAGE}),
    "null": (None, {INVALID_RECORD, CORRUPT_MESSAGE}),
    "larger than max.message.bytes": (
        Batch([b"x" * MESSAGE_BYTES_MAX]).encode(),
        {MESSAGE_TOO_LARGE},
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_stored(
    client: WireClient, topic: str, case: str
) -> None:
    records, codes = BAD_BATCHES[case]
    wire_requests.create_topic(client, topic)
    assert wire_requests.produce(client, topic, GOOD.encode()) == (NONE, 0)

    code, base_offset = wire_requests.produce(client, topic, records)

    assert code in codes
    assert base_offset == -1
    assert wire_requests.end_offset(client, topic) == 2
    assert wire_requests.produce(client, topic, GOOD.encode()) == (NONE, 2)
    [first, second] = read_batches(wire_requests.fetch(client, topic, 0, 0))
    assert (first.values, second.values) == ([b"a", b"b"], [b"a", b"b"])


def test_bytes_behind_a_batch_are_not_stored(client: WireClient, topic: str) -> None:
    wire_requests.create_topic(client, topic)
    wire_requests.produce(client, topic, GOOD.encode() + b"\x00" * 7)

    wire_requests.produce(client, topic, Batch([b"next"]).encode())

    stored = wire_requests.fetch(client, topic, 0, 0)
    batches = list(read_batches(stored))
    assert batches[-1].values == [b"next"]
    assert sum(len(Batch(batch.values).encode()) for batch in batches) == len(stored)


def test_a_bad_batch_does_not_hinder_its_neighbours(client: WireClient, topic: str) -> None:
    wire_requests.create_topic(client, topic, partitions=2)
    body = wire_requests.produce_body(topic, [(0, Batch(crc=1).encode()), (1, GOOD.encode())])

    response = client.request("Produce", wire_requests.PRODUCE_VERSION, body)

    [answers] = [answer["partition_responses"] for answer in response["responses"]]
    assert [(a["index"], a["error_code"]) for a in answers] == [(0, CORRUPT_MESSAGE), (1, NONE)]


def test_the_same_partition_twice_in_a_produce_is_refused(client: WireClient, topic: str) -> None:
    wire_requests.create_topic(client, topic)
    body = wire_requests.produce_body(topic, [(0, GOOD.encode()), (0, GOOD.encode())])

    try:
        response = client.request("Produce", wire_requests.PRODUCE_VERSION, body)
    except ConnectionClosedError:
        pass
    else:
        [answers] = [answer["partition_responses"] for answer in response["responses"]]
        assert {answer["error_code"] for answer in answers} == {INVALID_REQUEST}


def test_the_same_partition_twice_in_a_list_offsets_is_refused(
    client: WireClient, topic: str
) -> None:
    wire_requests.create_topic(client, topic)
    place = {"partition_index": 0, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [place, place]}]}

    response = client.request("ListOffsets", 7, body)

    answers = [a for t in response["topics"] for a in t["partitions"]]
    assert {answer["error_code"] for answer in answers} == {INVALID_REQUEST}


def gzip_bomb(zeros: bytes) -> bytes:
    """Return gzip of it."""
    compressor = zlib.compressobj(9, wbits=31)
    return compressor.compress(zeros) + compressor.flush()


def xerial_snappy(data: bytes) -> bytes:
    """Return it in the framing of Java clients."""
    block = bytes(cramjam.snappy.compress_raw(data))
    head = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block))
    return head + block


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip_bomb,
    "snappy": xerial_snappy,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, 19)),
}
# What each codec can press into one batch of a megabyte, at most a quarter of a gigabyte.
BOMB_BYTES = {"gzip": 256 * MIB, "snappy": 16 * MIB, "lz4": 192 * MIB, "zstd": 256 * MIB}


@pytest.mark.parametrize("codec", COMPRESSORS)
def test_a_decompression_bomb_does_not_go_off(
    client: WireClient, broker: Broker, topic: str, codec: str
) -> None:
    wire_requests.create_topic(client, topic)
    size = BOMB_BYTES[codec]
    body = b"\x00\x00\x00\x01" + varint(size) + b"\x00" * size + b"\x00"
    payload = COMPRESSORS[codec](varint(len(body)) + body)
    bomb = Batch([b""], payload=payload, attributes=CODECS[codec]).encode()
    assert len(bomb) < MESSAGE_BYTES_MAX
    if isinstance(broker, BrokerProcess):
        broker.forget_peak_memory()
        before = broker.resident_memory()

    code, _ = wire_requests.produce(client, topic, bomb)
    if code == NONE:  # It may be stored unopened; searching by time is what opens it.
        wire_requests.list_offset(client, topic, 0, TIMESTAMP)

    if isinstance(broker, BrokerProcess):
        assert broker.peak_memory() < before + 64 * MIB


# ---- topics ----


@pytest.mark.parametrize("name", INVALID_NAMES)
def test_an_invalid_topic_name_is_refused_everywhere(client: WireClient, name: str) -> None:
    creation = client.request(
        "CreateTopics",
        5,
        {
            "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 1_000,
        },
    )
    metadata = client.request("Metadata", 9, {"topics": [{"name": name}]})
    code, _ = wire_requests.produce(client, name, Batch().encode())

    assert creation["topics"][0]["error_code"] == INVALID_TOPIC_EXCEPTION
    assert metadata["topics"][0]["error_code"] == INVALID_TOPIC_EXCEPTION
    assert code in {INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_topic_is_refused_where_auto_creation_is_off(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker("auto.create.topics.enable=false")
    with WireClient(broker.address) as client:
        metadata = client.request("Metadata", 9, {"topics": [{"name": topic}]})
        code, _ = wire_requests.produce(client, topic, Batch().encode())
        everything = client.request("Metadata", 9, {"topics": None})

    assert metadata["topics"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert code == UNKNOWN_TOPIC_OR_PARTITION
    assert topic not in [t["name"] for t in everything["topics"]]


@pytest.mark.parametrize("partition", [-1, 1, INT32_MAX])
def test_an_unknown_partition_is_refused(client: WireClient, topic: str, partition: int) -> None:
    wire_requests.create_topic(client, topic)

    code, _ = wire_requests.produce(client, topic, Batch().encode(), partition)

    assert code == UNKNOWN_TOPIC_OR_PARTITION


# ---- clients that are slow, deaf or many ----


def test_a_stalled_client_hinders_nobody(broker: Broker, topic: str) -> None:
    with WireClient(broker.address) as stalled, WireClient(broker.address) as other:
        wire_requests.create_topic(other, topic)
        batch = Batch([b"x" * 100_000]).encode()
        stalled.send_bytes(struct.pack(">i", len(batch)) + stalled.frame("Produce", 9, batch[:500]))

        assert wire_requests.produce(other, topic, GOOD.encode()) == (NONE, 0)


def test_a_reader_that_never_reads_its_replies_is_not_served_without_end(
    broker: Broker, topic: str
) -> None:
    with WireClient(broker.address) as filler:
        wire_requests.create_topic(filler, topic)
        for _ in range(16):
            wire_requests.produce(filler, topic, Batch([b"x" * 1_000_000]).encode())
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0

    with WireClient(broker.address) as deaf:
        asked = ask_until_blocked(deaf, topic)

        assert_serves(broker)
        if isinstance(broker, BrokerProcess):
            assert broker.private_memory() < before + GROWTH_MAX
    assert asked > 0


def ask_until_blocked(deaf: WireClient, topic: str) -> int:
    """Send fetches for 16 MB each until the broker takes no more; return how many it took."""
    deaf.socket.settimeout(1.0)
    body = wire_requests.fetch_body(topic, 0, 0, 16 * MIB)
    for asked in range(20_000):
        try:
            deaf.send("Fetch", 11, body)
        except (TimeoutError, ConnectionClosedError):
            return asked
    raise AssertionError("the broker took 20,000 fetches and no reply was read")


def test_two_thousand_connections_that_say_nothing_hinder_nobody(
    broker: Broker, topic: str
) -> None:
    host, _, port = broker.address.rpartition(":")
    silent: list[socket.socket] = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            silent.append(socket.create_connection((host, int(port)), 5.0))
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, topic)
            started = time.monotonic()
            assert wire_requests.produce(client, topic, GOOD.encode()) == (NONE, 0)
            assert time.monotonic() - started < 5.0
    finally:
        for connection in silent:
            connection.close()
    if isinstance(broker, BrokerProcess):
        wait_until(lambda: broker.open_files() < IDLE_CONNECTIONS, "connections are let go")
