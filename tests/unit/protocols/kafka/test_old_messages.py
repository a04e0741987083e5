"""Produce v0-2: message sets become batches (KIP-31, KIP-32)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from broker.codec import decode_columns, encode, scan_headers
from broker.codec.compression import compress
from broker.model.errors import PeerError
from broker.model.limits import OLD_MESSAGES_BYTES_MAX
from broker.protocols.kafka.old_messages import for_consumer
from tests.oracles.message_set_oracle import LOG_APPEND_TIME, Message
from tests.oracles.message_set_oracle import encode as message_set
from tests.support.batches import records_of
from tests.support.fakes import NOW_MS, FakeBroker, batch, only

INVALID_TIMESTAMP = 32
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
old_versions = pytest.mark.parametrize("version", [0, 1, 2])
magics = pytest.mark.parametrize("magic", [0, 1])
codecs = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])


def data_of(records: bytes | None, *, topic: str = "a", index: int = 0) -> list[dict[str, Any]]:
    return [{"name": topic, "partition_data": [{"index": index, "records": records}]}]


def produce(broker: FakeBroker, version: int, records: bytes | None) -> dict[str, Any]:
    """Send a set to partition 0 of "a" and return its partition's response."""
    answer = broker.ask(0, version, acks=1, topic_data=data_of(records))
    return only(only(answer["responses"])["partition_responses"])


def stored(broker: FakeBroker) -> bytes:
    return b"".join(data for _, _, data in broker.log("a").batches)


def attributes(broker: FakeBroker) -> list[int]:
    return [header.attributes for header in scan_headers(stored(broker))]


def rows(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return offset, time, key and value of all records."""
    return [(offset, time, key, value) for offset, time, key, value, *_ in records_of(data)]


def wrapper(messages: list[Message], codec: int, **fields: Any) -> bytes:
    """Return a compressed message around these."""
    magic = fields.pop("magic", 1)
    compressed = compress(codec, message_set(messages), magic=magic)
    fields = {"attributes": codec, "timestamp": NOW_MS, **fields}
    return Message(value=compressed, magic=magic, **fields).encode()


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 2)
    return broker


# ---- what is stored ------------------------------------------------------------------------------


@old_versions
@magics
def test_messages_of_either_magic_become_one_batch(
    broker: FakeBroker, version: int, magic: int
) -> None:
    messages = [
        Message(place, b"key", b"%d" % place, magic=magic, timestamp=NOW_MS) for place in range(3)
    ]

    produce(broker, version, message_set(messages))
    answer = produce(broker, version, message_set(messages))

    assert (answer["error_code"], answer["base_offset"]) == (0, 3)
    time = NOW_MS if magic else -1
    assert rows(stored(broker)) == [
        (offset, time, b"key", b"%d" % (offset % 3)) for offset in range(6)
    ]
    assert attributes(broker) == [0, 0]


@magics
@codecs
def test_a_wrapper_becomes_a_batch_with_its_codec(
    broker: FakeBroker, magic: int, codec: int
) -> None:
    messages = [
        Message(place, None, b"v" * place, magic=magic, timestamp=NOW_MS - place)
        for place in range(4)
    ]

    answer = produce(broker, magic, wrapper(messages, codec, magic=magic))

    assert answer["error_code"] == 0
    assert attributes(broker) == [codec]
    assert rows(stored(broker)) == [
        (place, NOW_MS - place if magic else -1, None, b"v" * place) for place in range(4)
    ]


@magics
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4])
@given(
    pairs=st.lists(
        st.tuples(st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=200)),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=20, deadline=None)
def test_message_sets_written_by_kafka_python_are_stored_and_read_back_unchanged(
    magic: int, codec: int, pairs: list[tuple[bytes | None, bytes | None]]
) -> None:
    broker = FakeBroker()
    broker.create("a")
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for place, (key, value) in enumerate(pairs):
        builder.append(place, timestamp=NOW_MS + place, key=key, value=value)

    assert produce(broker, 2, bytes(builder.build()))["error_code"] == 0

    expected = [
        (place, NOW_MS + place if magic else -1, key, value)
        for place, (key, value) in enumerate(pairs)
    ]
    assert rows(stored(broker)) == expected
    topic = broker.topics.get("a")
    assert topic is not None
    for reader in (0, 1):
        columns = decode_columns(for_consumer(stored(broker), reader, 0, topic.config))
        times = memoryview(columns.column("timestamp")).tolist()
        assert memoryview(columns.column("offset")).tolist() == list(range(len(pairs)))
        assert times == [time if reader else -1 for _, time, _, _ in expected]


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 0, 0), (7, 8, 9), (3, 1, 2)])
def test_offsets_given_by_a_producer_are_ignored(
    broker: FakeBroker, offsets: tuple[int, ...]
) -> None:
    messages = [Message(offset, None, b"v", timestamp=NOW_MS) for offset in offsets]

    assert produce(broker, 2, wrapper(messages, GZIP))["base_offset"] == 0
    assert produce(broker, 2, message_set(messages))["base_offset"] == 3
    assert [row[0] for row in rows(stored(broker))] == [0, 1, 2, 3, 4, 5]


def test_raw_snappy_is_read_like_framed_snappy(broker: FakeBroker) -> None:
    inner = message_set([Message(value=b"v", timestamp=NOW_MS)])
    raw = bytes([len(inner), (len(inner) - 1) << 2]) + inner  # one literal of up to 60 bytes
    assert len(inner) <= 60

    message = Message(value=raw, attributes=SNAPPY, timestamp=NOW_MS)

    assert produce(broker, 2, message.encode())["error_code"] == 0
    assert rows(stored(broker)) == [(0, NOW_MS, None, b"v")]


@magics
def test_lz4_is_read_with_the_right_and_with_the_broken_header_checksum(
    broker: FakeBroker, magic: int
) -> None:
    inner = message_set([Message(value=b"v", magic=magic, timestamp=NOW_MS)])
    for checksum_of in (0, 1):
        compressed = compress(LZ4, inner, magic=checksum_of)
        message = Message(value=compressed, magic=magic, attributes=LZ4, timestamp=NOW_MS)

        assert produce(broker, 1, message.encode())["error_code"] == 0


def test_log_append_time_set_by_a_producer_is_refused(broker: FakeBroker) -> None:
    plain = [Message(value=b"v", timestamp=NOW_MS + place) for place in (0, 1)]
    compressed = wrapper(plain, GZIP, attributes=GZIP | LOG_APPEND_TIME)
    plain[1].attributes = LOG_APPEND_TIME

    for data in (compressed, message_set(plain)):
        assert produce(broker, 2, data)["error_code"] == INVALID_TIMESTAMP


def test_a_topic_with_log_append_time_stamps_old_messages() -> None:
    broker = FakeBroker()
    broker.create("a", config={"message.timestamp.type": "LogAppendTime"})

    answer = produce(broker, 2, message_set([Message(value=b"v", magic=0)]))

    assert answer["log_append_time_ms"] == NOW_MS
    assert [row[1] for row in rows(stored(broker))] == [NOW_MS]


@old_versions
def test_a_record_batch_in_an_old_request_is_stored_unchanged(
    broker: FakeBroker, version: int
) -> None:
    sent = encode([(b"k", b"v", [("header", b"1")])], timestamp_ms=NOW_MS, compression="gzip")[0]

    assert produce(broker, version, sent)["error_code"] == 0
    assert stored(broker)[16:] == sent[16:]


@pytest.mark.parametrize(
    ("came", "kept", "codec"),
    [
        (0, "gzip", GZIP),
        (GZIP, "uncompressed", 0),
        (GZIP, "zstd", ZSTD),
        (SNAPPY, "snappy", SNAPPY),
    ],
)
def test_old_messages_are_stored_with_the_topics_codec(came: int, kept: str, codec: int) -> None:
    broker = FakeBroker()
    broker.create("a", config={"compression.type": kept})
    messages = [Message(value=b"v" * 20, timestamp=NOW_MS) for _ in range(3)]
    sent = wrapper(messages, came) if came else message_set(messages)

    assert produce(broker, 2, sent)["error_code"] == 0
    assert attributes(broker) == [codec]
    assert len(rows(stored(broker))) == 3


def test_slow_conversions_are_stored_in_the_order_of_the_requests(
    broker: FakeBroker,
) -> None:
    # In many messages, so that the batch is not too large.
    count = OLD_MESSAGES_BYTES_MAX // 30 + 1
    many = message_set([Message(value=b"four", magic=0)] * count)

    assert produce(broker, 0, many)["base_offset"] == 0
    assert (
        produce(broker, 0, message_set([Message(value=b"last", magic=0)]))["base_offset"] == count
    )


# ---- what is refused -----------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[:-1]


PLAIN = Message(value=b"value", timestamp=NOW_MS)
COMPRESSED = wrapper([PLAIN], GZIP)


@magics
def test_attribute_bits_without_a_meaning_are_ignored(broker: FakeBroker, magic: int) -> None:
    message = Message(0, b"key", b"v", magic=magic, timestamp=NOW_MS, attributes=0x70)

    assert produce(broker, magic, message.encode())["error_code"] == 0
    assert attributes(broker) == [0]
    assert rows(stored(broker)) == [(0, NOW_MS if magic else -1, b"key", b"v")]


@old_versions
@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        cut(PLAIN.encode()),
        PLAIN.encode() + cut(PLAIN.encode()),
        Message(value=b"value", crc=1).encode(),
        PLAIN.encode() + COMPRESSED,
        COMPRESSED + PLAIN.encode(),
        COMPRESSED + COMPRESSED,
        cut(COMPRESSED),
        wrapper([PLAIN], GZIP, crc=1),
        wrapper([Message(value=b"value", crc=1)], GZIP),
        wrapper([], GZIP),
        wrapper([Message(value=b"value", magic=0)], GZIP),
        Message(value=COMPRESSED, attributes=GZIP).encode(),
        wrapper([Message(value=b"x", attributes=GZIP)], GZIP),
        PLAIN.encode() + batch(),
        batch() + PLAIN.encode(),
        batch() + batch(),
        batch()[:-1],
        Message(value=b"v" * 50, magic=3).encode(),
        bytes(8) + b"\xff" * 4 + PLAIN.encode()[12:],
    ],
    ids=[
        "null", "empty", "cut short", "second cut short", "bad crc", "plain and wrapper",
        "wrapper and plain", "two wrappers", "wrapper cut short", "wrapper's crc", "inner crc",
        "empty wrapper", "other magic inside", "not compressed at all", "wrapper inside", "batch",
        "batch first", "two batches", "batch cut short", "unknown magic", "negative size",
    ],
)  # fmt: skip
def test_an_invalid_set_is_corrupt_and_nothing_of_it_is_stored(
    broker: FakeBroker, version: int, records: bytes | None
) -> None:
    answer = produce(broker, version, records)

    assert (answer["error_code"], answer["base_offset"]) == (2, -1)
    assert broker.log("a").log_end_offset == 0


@magics
@pytest.mark.parametrize("codec", [ZSTD, 5, 7])
def test_an_old_message_compressed_with_zstd_is_refused(
    broker: FakeBroker, magic: int, codec: int
) -> None:
    message = Message(value=b"compressed", magic=magic, attributes=codec)

    assert produce(broker, 2, message.encode())["error_code"] == 76


@codecs
def test_a_message_that_decompresses_above_the_limit_is_too_large(
    broker: FakeBroker, codec: int
) -> None:
    bomb = Message(value=compress(codec, b"\0" * (17 << 20), magic=1), attributes=codec)

    assert produce(broker, 2, bomb.encode())["error_code"] == 10
    assert broker.log("a").log_end_offset == 0


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    broker = FakeBroker()
    broker.create("a", config={"max.message.bytes": "200"})

    assert produce(broker, 2, message_set([Message(value=b"v" * 50)] * 3))["error_code"] == 10
    assert produce(broker, 2, message_set([Message(value=b"v" * 50)] * 2))["error_code"] == 0


def test_a_set_above_the_limit_that_is_below_it_when_compressed_is_accepted() -> None:
    broker = FakeBroker()
    broker.create("a", config={"max.message.bytes": "200"})

    answer = produce(broker, 2, wrapper([Message(value=b"v" * 50, timestamp=NOW_MS)] * 30, GZIP))

    assert answer["error_code"] == 0


@pytest.mark.parametrize("codec", [0, GZIP])
def test_a_compacted_topic_refuses_a_message_without_a_key(codec: int) -> None:
    broker = FakeBroker()
    broker.create("a", config={"cleanup.policy": "compact"})
    for key, error in ((None, 2), (b"key", 0)):
        messages = [Message(key=key, value=b"v", timestamp=NOW_MS)]
        sent = wrapper(messages, codec) if codec else message_set(messages)

        assert produce(broker, 2, sent)["error_code"] == error


def test_storage_errors_are_returned_as_not_leader_or_follower(broker: FakeBroker) -> None:
    broker.log("a").fail()

    assert produce(broker, 2, PLAIN.encode())["error_code"] == 6
    assert produce(broker, 3, batch())["error_code"] == 56


@old_versions
@pytest.mark.parametrize("records", [PLAIN.encode(), COMPRESSED])
def test_acks_0_is_never_answered(broker: FakeBroker, version: int, records: bytes) -> None:
    assert broker.ask(0, version, acks=0, topic_data=data_of(records)) is None
    assert broker.log("a").log_end_offset == 1


@old_versions
@pytest.mark.parametrize("records", [cut(PLAIN.encode()), cut(COMPRESSED)])
def test_an_error_with_acks_0_closes_the_connection(
    broker: FakeBroker, version: int, records: bytes
) -> None:
    with pytest.raises(PeerError, match="acks=0"):
        broker.ask(0, version, acks=0, topic_data=data_of(records))


def test_a_refused_partition_does_not_delay_others(broker: FakeBroker) -> None:
    topic_data = (
        data_of(cut(COMPRESSED)) + data_of(COMPRESSED, index=1) + data_of(PLAIN.encode(), index=2)
    )
    partitions = [each["partition_data"][0] for each in topic_data]

    answer = only(
        broker.ask(0, 1, acks=1, topic_data=[{"name": "a", "partition_data": partitions}])[
            "responses"
        ]
    )

    codes = {each["index"]: each["error_code"] for each in answer["partition_responses"]}
    assert codes == {0: 2, 1: 0, 2: 3}
