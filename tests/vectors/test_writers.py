"""Written bytes equal those that Kafka's classes wrote of the same records.

Compressed bytes depend on the library that made them: there headers are compared, and the
decompressed content.
"""

from typing import Any

import pytest

from broker.codec import compression, decode_columns, down_convert, encode, scan_headers, up_convert
from broker.model.compressions import BY_NAME
from tests.support.record_bytes import entries_of
from tests.vectors.test_batches import CASES, SIZE_MAX, Case

BATCH_HEAD_END = 61
ATTRIBUTES_LOW = 22
LOG_APPEND_TIME = 8
CRC_OF_BATCH = slice(17, 21)
CRC_OF_MESSAGE = slice(12, 16)
SIZE = slice(8, 12)
EVERY_COLUMN = ("offset", "timestamp", "key", "value", "headers")

by_name = {case.name: case for case in CASES}
# One batch that a producer or broker writes. Compaction keeps more than records: header, times.
batches = [
    case
    for case in CASES
    if [batch["magic"] for batch in case.batches] == [2]
    and case.batches[0]["records"]
    and not case.batches[0]["is_control"]
    and "delete_horizon_ms" not in case.batches[0]
    and not case.name.startswith("compacted")
]
message_sets = [case for case in CASES if case.magics <= {0, 1}]


def without(data: bytes, *places: slice) -> bytes:
    """Return the bytes with zeros in some places."""
    rest = bytearray(data)
    for place in places:
        rest[place] = bytes(place.stop - place.start)
    return bytes(rest)


def batch_parts(batch: bytes, codec: str) -> tuple[bytes, bytes]:
    """Return what does not depend on a library: the header, and the decompressed records."""
    if codec == "none":
        return batch, b""
    head = without(batch[:BATCH_HEAD_END], SIZE, CRC_OF_BATCH)
    return head, compression.decompress(BY_NAME[codec].number, batch[BATCH_HEAD_END:], SIZE_MAX)


def message_parts(message_set: bytes, codec: str, magic: int) -> tuple[bytes, bytes]:
    """Return the same of a wrapper: up to its key, and the messages in it."""
    if codec == "none":
        return message_set, b""
    head_end = 22 + 8 * magic
    value = message_set[head_end + 4 :]
    head = without(message_set[:head_end], SIZE, CRC_OF_MESSAGE)
    return head, compression.decompress(BY_NAME[codec].number, value, SIZE_MAX)


@pytest.mark.parametrize("case", batches, ids=lambda case: case.name)
def test_records_are_encoded_as_kafka_encodes_them(case: Case) -> None:
    [header] = scan_headers(case.data)
    codec = case.batches[0]["compression"]
    # After a log append time the records still have their own.
    created = bytearray(case.data)
    created[ATTRIBUTES_LOW] &= ~LOG_APPEND_TIME

    [batch] = encode(
        decode_columns(created, columns=EVERY_COLUMN, check_crc=False),
        compression=codec,
        base_offset=None,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=case.batches[0]["is_transactional"],
        timestamp_ms=header.max_timestamp,
        timestamp_type=case.batches[0]["timestamp_type"],
    )

    assert batch_parts(batch, codec) == batch_parts(case.data, codec)


@pytest.mark.parametrize("case", message_sets, ids=lambda case: case.name)
def test_batches_are_converted_to_the_messages_that_kafka_writes(case: Case) -> None:
    magic = case.batches[0]["magic"]
    codec = case.batches[0]["compression"]
    newest = by_name[f"magic 2{case.name[7:].replace('NoTimestampType', 'CreateTime')}"]

    found = down_convert(newest.data, magic)

    assert message_parts(found, codec, magic) == message_parts(case.data, codec, magic)


@pytest.mark.parametrize("case", message_sets, ids=lambda case: case.name)
def test_messages_are_converted_to_batches_of_the_same_records(case: Case) -> None:
    codec = BY_NAME[case.batches[0]["compression"]].number
    append_time = LOG_APPEND_TIME * (case.batches[0]["timestamp_type"] == "LogAppendTime")

    [batch] = up_convert(case.data)

    assert entries_of(batch) == [record[:4] for record in case.records]
    [header] = scan_headers(batch)
    assert (header.magic, header.attributes) == (2, codec | append_time)


def test_a_log_of_every_magic_is_converted_to_batches() -> None:
    case = by_name["a log through every magic"]

    found = b"".join(up_convert(case.data))

    assert {header.magic for header in scan_headers(found)} == {2}
    assert entries_of(found) == [record[:4] for record in case.records]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_log_of_every_magic_is_converted_to_messages(magic: Any) -> None:
    case = by_name["a log through every magic"]
    without_zstd = b"".join(
        case.data[position : position + batch["size"]]
        for position, batch in case.positions()
        if batch["compression"] != "zstd"
    )
    expected = [
        (offset, timestamp if magic else -1, key, value)
        for offset, timestamp, key, value in entries_of(without_zstd)
    ]

    found = down_convert(without_zstd, magic)

    assert all(header.magic <= magic for header in scan_headers(found))
    assert entries_of(found) == expected
