"""Batches to message sets and back, compared with readers and writers of other clients."""

import struct
import zlib
from typing import Any, Literal

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as KafkaPythonRecords
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from broker.codec import down_convert, encode, scan_headers, up_convert
from broker.codec.compression import compress
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Unsupported
from tests.support.batches import batch_of
from tests.support.record_bytes import entries_of

NOW_MS = 1_700_000_000_000
MESSAGE = struct.Struct(">qiIbb")  # offset, size, CRC-32, magic, attributes
GZIP, LOG_APPEND_TIME = 1, 8

Magic = Literal[0, 1]

magics = pytest.mark.parametrize("magic", [0, 1])
legacy_codecs = pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
contents = st.none() | st.binary(max_size=200)
pairs = st.lists(
    st.tuples(contents, contents, st.none(), st.integers(0, NOW_MS)), min_size=1, max_size=8
)


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = NOW_MS,
    key: bytes | None = None,
) -> bytes:
    """Return a message as in the protocol guide."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    for content in (key, value):
        size = -1 if content is None else len(content)
        body += struct.pack(">i", size) + (content or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def attributes_of(batches: list[bytes]) -> list[int]:
    return [header.attributes for batch in batches for header in scan_headers(batch)]


# ---- down ----------------------------------------------------------------------------------------


@magics
@legacy_codecs
@given(given_rows=pairs)
@settings(max_examples=30, deadline=None)
def test_old_readers_read_down_converted_records(
    given_rows: list[Any], magic: Magic, codec: str
) -> None:
    batches = b"".join(encode(given_rows, compression=codec, base_offset=100, batch_bytes_max=700))

    found = down_convert(batches, magic)

    expected = [
        (100 + place, timestamp if magic else None, key, value)
        for place, (key, value, _, timestamp) in enumerate(given_rows)
    ]
    assert read_by(KafkaPythonRecords(found)) == expected
    if (magic, codec) != (0, "lz4"):  # which aiokafka does not read
        assert read_by(AiokafkaRecords(found)) == expected
    assert [entry[2:] for entry in entries_of(found)] == [entry[2:] for entry in expected]


def read_by(records: Any) -> list[tuple[int, int | None, bytes | None, bytes | None]]:
    found: list[tuple[int, int | None, bytes | None, bytes | None]] = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found.extend((each.offset, each.timestamp, each.key, each.value) for each in batch)
    return found


@magics
def test_a_record_is_converted_to_a_message_without_its_headers(magic: Magic) -> None:
    batches = encode([(b"key", b"value", [("h", b"1")], NOW_MS)], base_offset=7)

    assert down_convert(batches[0], magic) == message(magic, 7, b"value", key=b"key")


def test_a_wrapper_of_magic_1_has_relative_offsets_and_the_maximum_timestamp() -> None:
    rows = [(None, b"v", None, NOW_MS + delta) for delta in (0, 5, 3)]
    [batch] = encode(rows, compression="gzip", base_offset=40)

    found = down_convert(batch, 1)

    inner = b"".join(message(1, place, b"v", timestamp=row[3]) for place, row in enumerate(rows))
    wrapped = compress(GZIP, inner, magic=1)
    assert found == message(1, 42, wrapped, attributes=GZIP, timestamp=NOW_MS + 5)


def test_a_wrapper_of_magic_0_has_absolute_offsets() -> None:
    [batch] = encode([b"v"] * 3, compression="gzip", base_offset=40)

    inner = b"".join(message(0, offset, b"v") for offset in (40, 41, 42))
    assert down_convert(batch, 0) == message(0, 42, compress(GZIP, inner), attributes=GZIP)


def test_log_append_time_is_kept_in_magic_1() -> None:
    [batch] = encode([b"v"], timestamp_ms=NOW_MS, timestamp_type="LogAppendTime")

    assert down_convert(batch, 1) == message(1, 0, b"v", attributes=LOG_APPEND_TIME)
    assert down_convert(batch, 0) == message(0, 0, b"v")


@magics
def test_control_batches_are_omitted(magic: Magic) -> None:
    marker = batch_of([(b"\0\0\0\1", b"\0" * 6, ())], 0, is_control=True, base_offset=1)
    batches = [batch_of([(None, b"v", ())], NOW_MS, base_offset=offset) for offset in (0, 2)]

    assert down_convert(marker, magic) == b""
    assert [
        entry[0] for entry in entries_of(down_convert(batches[0] + marker + batches[1], magic))
    ] == [0, 2]


@magics
def test_zstd_cannot_be_converted_for_old_readers(magic: Magic) -> None:
    [before] = encode([b"v"])
    [batch] = encode([b"v"], compression="zstd")

    with pytest.raises(Unsupported, match="zstd") as raised:
        down_convert(before + batch, magic)
    assert raised.value.position == len(before)


def test_data_that_is_old_enough_is_returned_unchanged() -> None:
    old = message(0, 0, b"zero") + message(1, 1, b"one")

    assert down_convert(old, 1) == old
    assert down_convert(old, 0) == message(0, 0, b"zero") + message(0, 1, b"one")


@legacy_codecs
def test_uncompressed_records_before_an_offset_are_omitted(codec: str) -> None:
    [batch] = encode([b"v"] * 4, base_offset=10, compression=codec)

    found = entries_of(down_convert(batch, 1, min_offset=12))

    assert [entry[0] for entry in found] == ([12, 13] if codec == "none" else [10, 11, 12, 13])


def test_conversion_stops_before_a_batch_above_the_limit() -> None:
    batches = encode([b"v" * 50] * 6, batch_bytes_max=200)
    each = len(down_convert(batches[0], 1))
    whole = b"".join(batches)

    for limit, count in [(0, 1), (each - 1, 1), (2 * each - 1, 1), (2 * each, 2), (9 * each, 3)]:
        assert len(down_convert(whole, 1, output_bytes_max=limit)) == count * each
    # The bytes after it are not checked.
    [zstd] = encode([b"v"], compression="zstd")
    assert len(down_convert(batches[0] + batches[1] + zstd, 1, output_bytes_max=each)) == each


@magics
def test_converting_no_bytes_gives_no_bytes(magic: Magic) -> None:
    [batch] = encode([b"v"])

    assert down_convert(b"", magic) == b""
    assert down_convert(batch[:-1], magic) == b""


@pytest.mark.parametrize("magic", [-1, 2, 3])
def test_only_magic_0_and_1_are_old_formats(magic: Any) -> None:
    with pytest.raises(ValueError, match="expected 0 or 1"):
        down_convert(b"", magic)


# ---- up ------------------------------------------------------------------------------------------


@magics
@legacy_codecs
@given(given_rows=pairs)
@settings(max_examples=30, deadline=None)
def test_messages_written_by_kafka_python_are_converted_to_batches_of_the_same_records(
    given_rows: list[Any], magic: Magic, codec: str
) -> None:
    number = ["none", "gzip", "snappy", "lz4"].index(codec)
    builder = LegacyRecordBatchBuilder(magic, number, 1 << 20)
    for place, (key, value, _, timestamp) in enumerate(given_rows):
        builder.append(place, timestamp=timestamp, key=key, value=value)

    # A producer's own offsets are ignored.
    [batch] = up_convert(bytes(builder.build()), base_offset=0)

    assert entries_of(batch) == [
        (place, timestamp if magic else -1, key, value)
        for place, (key, value, _, timestamp) in enumerate(given_rows)
    ]
    assert attributes_of([batch]) == [number]


@magics
@legacy_codecs
def test_down_and_up_conversion_gives_the_same_records(magic: Magic, codec: str) -> None:
    rows = [(b"key", b"value", None, NOW_MS if magic else -1)] * 20
    batches = encode(rows, compression=codec, base_offset=9, leader_epoch=2, batch_bytes_max=300)

    found = up_convert(down_convert(b"".join(batches), magic), leader_epoch=2, batch_bytes_max=300)

    assert entries_of(b"".join(found)) == entries_of(b"".join(batches))
    assert attributes_of(found) == attributes_of(batches)


def test_adjacent_messages_of_one_kind_share_a_batch() -> None:
    [wrapper] = encode([b"v"] * 2, compression="gzip", base_offset=4, timestamp_ms=NOW_MS)
    messages = [
        message(0, 0, b"v"),
        message(1, 1, b"v"),
        message(1, 2, b"v", attributes=LOG_APPEND_TIME),
        message(1, 3, b"v", attributes=LOG_APPEND_TIME),
        down_convert(wrapper, 1),
        down_convert(wrapper[:7] + b"\x06" + wrapper[8:], 1),
        message(1, 8, b"v", attributes=LOG_APPEND_TIME),
        message(1, 9, b"v", attributes=LOG_APPEND_TIME, timestamp=NOW_MS + 1),
        message(1, 10, b"v"),
    ]

    batches = up_convert(b"".join(messages))

    assert attributes_of(batches) == [0, 8, 1, 1, 8, 8, 0]
    assert entries_of(b"".join(batches)) == [
        (offset, {0: -1, 9: NOW_MS + 1}.get(offset, NOW_MS), None, b"v") for offset in range(11)
    ]


def test_offsets_of_messages_are_kept_with_their_gaps_or_assigned_anew() -> None:
    [wrapper] = encode([b"v"] * 2, compression="gzip", base_offset=60)
    messages = message(1, 50, b"v") + message(1, 55, b"v") + down_convert(wrapper, 1)

    kept = up_convert(messages)
    new = up_convert(messages, base_offset=7)

    assert [entry[0] for entry in entries_of(b"".join(kept))] == [50, 55, 60, 61]
    assert [entry[0] for entry in entries_of(b"".join(new))] == [7, 8, 9, 10]
    assert [header.base_offset for batch in new for header in scan_headers(batch)] == [7, 9]


def test_offsets_left_at_zero_by_a_producer_cannot_be_kept() -> None:
    messages = message(1, 0, b"v") * 2

    assert len(up_convert(messages, base_offset=0)) == 1
    with pytest.raises(Corrupt, match="row 1: offset 0 after 0"):
        up_convert(messages)


def test_batches_keep_everything_but_their_offsets() -> None:
    [batch] = encode([b"v"] * 3, base_offset=10, leader_epoch=5, compression="zstd")
    messages = message(1, 5, b"v"), message(1, 20, b"v")

    kept = up_convert(messages[0] + batch + messages[1])
    new = up_convert(messages[0] + batch + messages[1], base_offset=0)

    assert kept[1] == batch
    assert new[1] == (1).to_bytes(8) + batch[8:]
    assert [entry[0] for entry in entries_of(b"".join(new))] == [0, 1, 2, 3, 4]


def test_messages_above_one_batch_become_several() -> None:
    [batch] = encode([b"v" * 50] * 9, compression="gzip", timestamp_ms=NOW_MS)

    batches = up_convert(down_convert(batch, 1), batch_bytes_max=200, leader_epoch=3)

    assert all(len(each) <= 200 for each in batches)
    assert len(batches) == 5
    assert entries_of(b"".join(batches)) == entries_of(batch)
    assert {header.leader_epoch for each in batches for header in scan_headers(each)} == {3}


def test_an_incomplete_last_message_is_omitted() -> None:
    messages = message(0, 0, b"first") + message(0, 1, b"second")

    for size in range(len(messages)):
        whole = size >= len(message(0, 0, b"first"))
        assert len(up_convert(messages[:size])) == whole


# ---- bad bytes and limits ------------------------------------------------------------------------


@magics
def test_the_decompressed_bytes_of_all_batches_share_one_limit(magic: Magic) -> None:
    batches = [
        encode([b"\0" * 10_000] * 2, compression="gzip", base_offset=2 * place)[0]
        for place in range(3)
    ]
    whole = b"".join(batches)
    messages = down_convert(whole, magic, bytes_max=61_000)

    with pytest.raises(LimitExceeded):
        down_convert(whole, magic, bytes_max=50_000)
    assert len(up_convert(messages, bytes_max=61_000)) == 3
    with pytest.raises(LimitExceeded):
        up_convert(messages, bytes_max=50_000)


def test_an_error_has_its_position_in_the_whole_input() -> None:
    good, bad = message(1, 0, b"v"), bytearray(message(1, 1, b"value", attributes=8))
    bad[-1] ^= 1

    with pytest.raises(Corrupt) as raised:
        up_convert(good + bad)
    assert raised.value.position is not None
    assert raised.value.position >= len(good)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_are_converted_or_refused(data: st.DataObject) -> None:
    [batch] = encode(
        [(b"key", b"value" * 5)] * 3, compression=data.draw(LEGACY), timestamp_ms=NOW_MS
    )
    messages = down_convert(batch, data.draw(st.sampled_from([0, 1])))
    for good in (batch, messages):
        damaged = bytearray(good)
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(good) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
        fixed = with_crc(damaged)
        for convert in (
            lambda data: down_convert(data, 0, bytes_max=1 << 20),
            lambda data: down_convert(data, 1, bytes_max=1 << 20),
            lambda data: up_convert(data, bytes_max=1 << 20),
            lambda data: up_convert(data, base_offset=0, bytes_max=1 << 20),
        ):
            for each in (bytes(damaged), fixed):
                try:
                    convert(each)
                except CodecError:
                    continue


LEGACY = st.sampled_from(["none", "gzip", "snappy", "lz4"])


def with_crc(data: bytearray) -> bytes:
    """Return a message or batch with a correct CRC, so that more of it is parsed."""
    if data[16] in {0, 1}:
        return bytes(data[:12] + zlib.crc32(data[16:]).to_bytes(4) + data[16:])
    return bytes(data)
