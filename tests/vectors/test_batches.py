"""Record batches that Kafka's classes wrote, of every magic and compression.

A reader takes the bytes of one or more batches and returns their records; each is given the cases
of the magics that it knows.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import crc32c
import pytest

from broker.codec import audit, decode_columns, validate
from tests.support import record_bytes
from tests.support.batches import header, records_of
from tests.vectors import vector_files

SIZE_MAX = 1 << 20
FIRST_MAGICS = {0, 1}
LEGACY_HEAD = struct.Struct(">qiIb")  # offset, size of the rest, CRC-32 of what follows, magic
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
DELETE_HORIZON = 0x40

Headers: TypeAlias = list[tuple[bytes | None, bytes | None]]
Record: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]
Reader: TypeAlias = Callable[[bytes], list[Record]]


class Case(NamedTuple):
    """Some bytes, and the batches that Kafka reads in them."""

    name: str
    data: bytes
    batches: list[dict[str, Any]]

    @property
    def magics(self) -> set[int]:
        """The magics that a reader must support."""
        return {batch["magic"] for batch in self.batches}

    @property
    def records(self) -> list[Record]:
        """The result of a reader: offset, timestamp, key, value, headers; never control records."""
        return [
            (
                record["offset"],
                record["timestamp"],
                unhex(record["key"]),
                unhex(record["value"]),
                [(unhex(name), unhex(value)) for name, value in record["headers"]],
            )
            for batch in self.batches
            if not batch.get("is_control")
            for record in batch["records"]
        ]

    def positions(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the position of each batch, and its fields."""
        position = 0
        for batch in self.batches:
            yield position, batch
            position += batch["size"]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


CASES = [
    Case(line["name"], bytes.fromhex(line["hex"]), line["batches"])
    for line in vector_files.lines(vector_files.NEWEST, "batches")
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


# ---- readers -------------------------------------------------------------------------------------


def columns_of(data: bytes) -> list[Record]:
    """Return the rows of all columns."""
    found = record_bytes.rows(decode_columns(data, columns=record_bytes.COLUMNS))
    return [(row.offset, row.timestamp, row.key, row.value, [*row.headers]) for row in found]


ALL_MAGICS = {0, 1, 2}
READERS: dict[str, tuple[Reader, set[int]]] = {
    "columns": (columns_of, ALL_MAGICS),
    "records": (records_of, ALL_MAGICS),
}


@pytest.mark.parametrize(
    ("reader", "case"),
    [
        pytest.param(reader, case, id=f"{name}: {case.name}")
        for name, (reader, magics) in READERS.items()
        for case in CASES
        if case.magics <= magics
    ],
)
def test_a_reader_returns_the_records_that_kafka_reads(reader: Reader, case: Case) -> None:
    assert reader(case.data) == case.records


@every_case
def test_batches_written_by_kafka_are_valid(case: Case) -> None:
    assert validate(case.data) == sum(len(batch["records"]) for batch in case.batches)


@every_case
def test_batches_written_by_kafka_have_no_damage(case: Case) -> None:
    found = audit(case.data)

    assert (found.crc_errors, found.damaged_batches, found.size) == (0, 0, len(case.data))


@every_case
def test_the_timestamp_type_is_the_one_kafka_reads(case: Case) -> None:
    kinds = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}

    assert [
        row.timestamp_type
        for row in record_bytes.rows(decode_columns(case.data, columns=record_bytes.COLUMNS))
    ] == [
        kinds[batch["timestamp_type"]]
        for batch in case.batches
        if not batch.get("is_control")
        for _ in batch["records"]
    ]


# ---- batches -------------------------------------------------------------------------------------


@every_case
def test_the_header_of_a_batch_has_the_fields_that_kafka_reads(case: Case) -> None:
    for position, batch in case.positions():
        if batch["magic"] in FIRST_MAGICS:
            continue
        found = header(case.data, position)
        fields = found._asdict() | {"position": position}

        assert {name: batch.get(name, value) for name, value in fields.items()} == fields
        assert CODECS[found.attributes & CODEC_BITS] == batch["compression"]
        assert found.attributes & ~CODEC_BITS == (
            LOG_APPEND_TIME * (batch["timestamp_type"] == "LogAppendTime")
            | TRANSACTIONAL * batch["is_transactional"]
            | CONTROL * batch["is_control"]
            | DELETE_HORIZON * ("delete_horizon_ms" in batch)
        )


@every_case
def test_a_batch_has_the_position_and_checksum_that_kafka_reads(case: Case) -> None:
    end = 0
    for position, batch in case.positions():
        offset, size, checksum, magic = LEGACY_HEAD.unpack_from(case.data, position)
        end = position + 12 + size

        assert end == position + batch["size"]
        if batch["magic"] in FIRST_MAGICS:
            assert (offset, magic) == (batch["last_offset"], batch["magic"])
            assert checksum == batch["crc"] == zlib.crc32(case.data[position + 16 : end])
        else:
            assert (offset, case.data[position + 16]) == (batch["base_offset"], 2)
            assert crc32c.crc32c(case.data[position + 21 : end]) == batch["crc"]
    assert end == len(case.data)


def test_every_magic_has_a_vector_of_every_allowed_compression() -> None:
    found = {(batch["magic"], batch["compression"]) for case in CASES for batch in case.batches}

    assert found == {
        (magic, codec) for magic in range(3) for codec in CODECS if magic == 2 or codec != "zstd"
    }
