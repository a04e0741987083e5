"""Batches and topics that no correct client sends: the right error, and nothing stored.

The codes are those of Kafka's protocol guide.
"""

import struct
import zlib
from collections.abc import Callable

import cramjam
import pytest

from tests.support import broken_batches, wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import CODECS, TIMESTAMP, Batch, read_batches, varint

pytestmark = pytest.mark.usefixtures("still_well")

NONE = 0
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_TOPIC_EXCEPTION = 17
INVALID_REQUEST = 42
INVALID_RECORD = 87

MIB = 1 << 20
MESSAGE_BYTES_MAX = 1_048_588  # Kafka's max.message.bytes.
INT32_MAX = 0x7FFFFFFF
INVALID_NAMES = ["", ".", "..", "a/b", "a b", "ü", "a" * 250, "../escape"]

GOOD = Batch([b"a", b"b"])
BAD_BATCHES = {
    "wrong CRC": (Batch(crc=0x12345678).encode(), {CORRUPT_MESSAGE}),
    "a flipped bit": (GOOD.encode()[:-1] + b"\x7f", {CORRUPT_MESSAGE}),
    "a length beyond the end": (Batch(length=5_000).encode(), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a length inside the header": (Batch(length=20).encode(), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a negative length": (Batch(length=-1).encode(), {CORRUPT_MESSAGE}),
    "half a header": (Batch().encode()[:30], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "a count too high": (Batch(count=9).encode(), {INVALID_RECORD}),
    "no records": (Batch([], last_offset_delta=-1).encode(), {INVALID_RECORD}),
    "a negative count": (Batch(count=-1, last_offset_delta=-2).encode(), {INVALID_RECORD}),
    "more records than bytes": (
        Batch(count=INT32_MAX, last_offset_delta=INT32_MAX - 1).encode(),
        {INVALID_RECORD},
    ),
    "more compressed records than can decompress": (
        Batch(
            count=2_400_000,
            last_offset_delta=2_399_999,
            payload=bytes(cramjam.zstd.compress(b"")),
            attributes=CODECS["zstd"],
        ).encode(),
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


@pytest.mark.parametrize(
    "name", ["garbage in a record, none", "a key beyond its record, none", "gzip that is none"]
)
def test_a_batch_that_would_stop_consumers_is_refused_as_kafka_refuses_it(
    wire: WireClient, topic: str, name: str
) -> None:
    case = broken_batches.CASES[name]
    wire_requests.create_topic(wire, topic)

    assert wire_requests.produce(wire, topic, case.batch()) == (case.kafka, -1)

    assert wire_requests.produce(wire, topic, GOOD.encode()) == (NONE, 0)
    [stored] = read_batches(wire_requests.fetch(wire, topic, 0, 0))
    assert stored.values == [b"a", b"b"]


@pytest.mark.parametrize(
    "setting", [None, ("cleanup.policy", "compact"), ("compression.type", "zstd")], ids=str
)
def test_a_batch_that_some_consumer_cannot_read_is_refused(
    wire: WireClient, topic: str, setting: tuple[str, str] | None
) -> None:
    cases = {
        name: case
        for name, case in broken_batches.CASES.items()
        if case.code != NONE or setting is None  # the valid ones have no keys
    }
    wire_requests.create_topic(wire, topic)
    if setting is not None:
        wire_requests.alter_topic(wire, topic, dict([setting]))

    answers = {
        name: wire_requests.produce(wire, topic, case.batch())[0] for name, case in cases.items()
    }

    assert answers == {name: case.code for name, case in cases.items()}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_stored(
    wire: WireClient, topic: str, case: str
) -> None:
    records, codes = BAD_BATCHES[case]
    wire_requests.create_topic(wire, topic)
    assert wire_requests.produce(wire, topic, GOOD.encode()) == (NONE, 0)

    code, base_offset = wire_requests.produce(wire, topic, records)

    assert code in codes
    assert base_offset == -1
    assert wire_requests.end_offset(wire, topic) == 2
    assert wire_requests.produce(wire, topic, GOOD.encode()) == (NONE, 2)
    [first, second] = read_batches(wire_requests.fetch(wire, topic, 0, 0))
    assert (first.values, second.values) == ([b"a", b"b"], [b"a", b"b"])


def test_bytes_after_a_batch_are_not_stored(wire: WireClient, topic: str) -> None:
    wire_requests.create_topic(wire, topic)
    wire_requests.produce(wire, topic, GOOD.encode() + b"\x00" * 7)

    wire_requests.produce(wire, topic, Batch([b"next"]).encode())

    stored = wire_requests.fetch(wire, topic, 0, 0)
    batches = list(read_batches(stored))
    assert batches[-1].values == [b"next"]
    assert sum(len(Batch(batch.values).encode()) for batch in batches) == len(stored)


def test_a_bad_batch_does_not_affect_other_partitions_of_its_request(
    wire: WireClient, topic: str
) -> None:
    wire_requests.create_topic(wire, topic, partitions=2)
    body = wire_requests.produce_body(topic, [(0, Batch(crc=1).encode()), (1, GOOD.encode())])

    response = wire.request("Produce", wire_requests.PRODUCE_VERSION, body)

    [answers] = [answer["partition_responses"] for answer in response["responses"]]
    assert [(a["index"], a["error_code"]) for a in answers] == [(0, CORRUPT_MESSAGE), (1, NONE)]


def test_the_same_partition_twice_in_a_produce_is_refused(wire: WireClient, topic: str) -> None:
    wire_requests.create_topic(wire, topic)
    body = wire_requests.produce_body(topic, [(0, GOOD.encode()), (0, GOOD.encode())])

    try:
        response = wire.request("Produce", wire_requests.PRODUCE_VERSION, body)
    except ConnectionClosedError:
        pass
    else:
        [answers] = [answer["partition_responses"] for answer in response["responses"]]
        assert {answer["error_code"] for answer in answers} == {INVALID_REQUEST}


def test_the_same_partition_twice_in_a_list_offsets_is_refused(
    wire: WireClient, topic: str
) -> None:
    wire_requests.create_topic(wire, topic)
    place = {"partition_index": 0, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [place, place]}]}

    response = wire.request("ListOffsets", 7, body)

    answers = [a for t in response["topics"] for a in t["partitions"]]
    assert {answer["error_code"] for answer in answers} == {INVALID_REQUEST}


def gzip_bomb(zeros: bytes) -> bytes:
    """Return gzip data of that many zeros."""
    compressor = zlib.compressobj(9, wbits=31)
    return compressor.compress(zeros) + compressor.flush()


def xerial_snappy(data: bytes) -> bytes:
    """Return the data in the framing of Java clients."""
    block = bytes(cramjam.snappy.compress_raw(data))
    head = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block))
    return head + block


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip_bomb,
    "snappy": xerial_snappy,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, 19)),
}
# The most zeros that each codec can compress into a batch of 1 MB, at most 256 MB.
BOMB_BYTES = {"gzip": 256 * MIB, "snappy": 16 * MIB, "lz4": 192 * MIB, "zstd": 256 * MIB}


@pytest.mark.parametrize("codec", COMPRESSORS)
def test_a_decompression_bomb_is_refused_without_being_decompressed_whole(
    wire: WireClient, broker: Broker, topic: str, codec: str
) -> None:
    wire_requests.create_topic(wire, topic)
    size = BOMB_BYTES[codec]
    body = b"\x00\x00\x00\x01" + varint(size) + b"\x00" * size + b"\x00"
    payload = COMPRESSORS[codec](varint(len(body)) + body)
    bomb = Batch([b""], payload=payload, attributes=CODECS[codec]).encode()
    assert len(bomb) < MESSAGE_BYTES_MAX
    before = 0
    if isinstance(broker, BrokerProcess):
        broker.forget_peak_memory()
        before = broker.resident_memory()

    code, _ = wire_requests.produce(wire, topic, bomb)
    if code == NONE:  # It may be stored undecompressed; a search by timestamp decompresses it.
        wire_requests.list_offset(wire, topic, 0, TIMESTAMP)

    if isinstance(broker, BrokerProcess):
        assert broker.peak_memory() < before + 64 * MIB


@pytest.mark.parametrize("name", INVALID_NAMES)
def test_an_invalid_topic_name_is_refused_everywhere(wire: WireClient, name: str) -> None:
    creation = wire.request(
        "CreateTopics",
        5,
        {
            "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 1_000,
        },
    )
    metadata = wire.request("Metadata", 9, {"topics": [{"name": name}]})
    code, _ = wire_requests.produce(wire, name, Batch().encode())

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
def test_an_unknown_partition_is_refused(wire: WireClient, topic: str, partition: int) -> None:
    wire_requests.create_topic(wire, topic)

    code, _ = wire_requests.produce(wire, topic, Batch().encode(), partition)

    assert code == UNKNOWN_TOPIC_OR_PARTITION
