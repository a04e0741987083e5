"""`broker segment dump`: batches or records, one per line, in the memory of one batch.

Each segment is examined for damage first; then the intact ranges are read again and printed, with
the damaged ranges between them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click

from broker._native.kernel import file_ops
from broker._native.log.segment_check import Damage
from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.cli.topic.record_rows import text_of
from broker.codec import BatchHeader, records, scan_headers
from broker.model.compressions import COMPRESSIONS
from broker.model.errors import CodecError
from broker.model.limits import DUMP_READ_BYTES
from broker.segments import verification
from broker.segments.verification import LocatedSegment, examined

_CODEC: Final = 0x07
_FLAGS: Final = (
    (0x08, "log-append-time"),
    (0x10, "transactional"),
    (0x20, "control"),
    (0x40, "delete-horizon"),
)
_CONTROL: Final = 0x20


class DumpedBatch(NamedTuple):
    """A batch, or a damaged range.

    Attributes:
        segment: path of its log, relative to the given one.
        position: of its first byte.
        size: in bytes.
        base_offset: its first offset.
        last_offset: its last offset.
        count: its records; of a damaged range it is null, as all that follows.
        epoch: of the leader that has appended it.
        producer_id: of its producer, or -1.
        producer_epoch: of its producer, or -1.
        sequence: of its first record, or -1.
        flags: log-append-time, transactional, control, delete-horizon.
        compression: none, gzip, snappy, lz4 or zstd.
        base_timestamp: in milliseconds since 1970.
        max_timestamp: the newest of a record.
        crc: ok.
        damage: why it is damaged, or null.
    """

    segment: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    count: int | None  # type: ignore[assignment] # a method of tuples
    epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    flags: list[str] | None
    compression: str | None
    base_timestamp: int | None
    max_timestamp: int | None
    crc: str | None
    damage: str | None


class DumpedRecord(NamedTuple):
    """A record (with --records), or a damaged range.

    Attributes:
        segment: path of its log, relative to the given one.
        offset: of the record, or the first one of a range.
        timestamp: in milliseconds since 1970.
        key: a text, null, or {"base64": ...} if it is no UTF-8.
        value: likewise.
        headers: pairs of name and value.
        damage: why a range is damaged, with its bytes, or null.
    """

    segment: str
    offset: int
    timestamp: int | None
    key: Any
    value: Any
    headers: list[Any] | None
    damage: str | None


Row: TypeAlias = DumpedBatch | DumpedRecord


@verb(
    DumpedBatch,
    other_row=DumpedRecord,
    is_local=True,
    columns=("position", "size", "base_offset", "last_offset", "count", "compression", "damage"),
    examples=(
        "broker segment dump data/orders-0",
        "broker segment dump data/orders-0 --records -o jsonl",
    ),
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option("--records", "has_records", is_flag=True, help="Show records instead of batches.")
def command(session: Session, paths: tuple[Path, ...], has_records: bool) -> None:
    """Show the batches of segments, or their records, one per line.

    PATH is a segment (.log), a partition's folder or a data directory. Damage is shown with its
    position; the exit code is 1 then. Markers of transactions are batches, and no records.
    """
    places = [place for path in paths for place in verification.find(path)]
    if has_records:
        session.output.use(DumpedRecord)
    for place in places:
        for row in rows(place, has_records=has_records):
            if row.damage is not None:
                session.exit_code = Exit.FAILED
            if session.is_text:
                session.output.stream.write(_line(row) + "\n")
            else:
                session.write(row)


def rows(place: LocatedSegment, *, has_records: bool) -> Iterator[Row]:
    """Yield a row for each batch or record, and for each damaged range, in order of position."""
    position = 0
    found = examined(place, lambda _: None, has_digest=False)
    for damage in found.damages:
        yield from _intact_rows(place, position, damage.position, has_records=has_records)
        yield _damage_row(place, damage, has_records=has_records)
        position = damage.end_position
    end = found.size - found.reserved_bytes - found.tail_bytes
    yield from _intact_rows(place, position, end, has_records=has_records)


def _intact_rows(
    place: LocatedSegment, position: int, end: int, *, has_records: bool
) -> Iterator[Row]:
    while position < end:
        data = _read(place.file, position, end)
        headers = scan_headers(data)
        for header in headers:
            if has_records:
                batch = data[header.position : header.position + header.size]
                yield from _record_rows(place, position, header, batch)
            else:
                yield _batch_row(place, position, header)
        if headers.end == 0:  # the file has changed since the examination
            raise CodecError(f"{place.name}: no whole batch", position)
        position += headers.end


def _read(file: Path, position: int, end: int) -> bytes:
    """Return some whole batches, at least one."""
    data: bytes = file_ops.read_range(file, position, min(DUMP_READ_BYTES, end - position))
    cut = scan_headers(data, cut=True)
    first = cut[0].size if len(cut) else 0
    if first > len(data):
        data = file_ops.read_range(file, position, min(first, end - position))
    return data


def _batch_row(place: LocatedSegment, start: int, header: BatchHeader) -> DumpedBatch:
    return DumpedBatch(
        place.name,
        start + header.position,
        header.size,
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        [word for bit, word in _FLAGS if header.attributes & bit],
        COMPRESSIONS[header.attributes & _CODEC].name,
        header.base_timestamp,
        header.max_timestamp,
        "ok",
        None,
    )


def _record_rows(
    place: LocatedSegment, start: int, header: BatchHeader, batch: bytes
) -> Iterator[DumpedRecord]:
    """Yield the records of an intact batch; those of a control batch are markers, and left out."""
    if header.attributes & _CONTROL:
        return
    try:
        for record in records(batch, check_crc=False):
            yield DumpedRecord(
                place.name,
                record.offset,
                record.timestamp,
                text_of(record.key),
                text_of(record.value),
                [[text_of(key), text_of(value)] for key, value in record.headers],
                None,
            )
    except CodecError as error:  # its CRC is correct: the batch was written like this
        position = start + header.position
        damage = Damage(
            position,
            position + header.size,
            header.base_offset,
            header.last_offset + 1,
            error.reason,
        )
        yield _damaged_records(place, damage)


def _damage_row(place: LocatedSegment, damage: Damage, *, has_records: bool) -> Row:
    if has_records:
        return _damaged_records(place, damage)
    position, end, offset, end_offset, reason = damage
    known = (place.name, position, end - position, offset, end_offset - 1)
    unknown = [None] * (len(DumpedBatch._fields) - len(known) - 1)
    return DumpedBatch._make((*known, *unknown, reason))


def _damaged_records(place: LocatedSegment, damage: Damage) -> DumpedRecord:
    where = f"bytes {damage.position} to {damage.end_position}, offsets to {damage.end_offset}"
    return DumpedRecord(
        place.name, damage.offset, None, None, None, None, f"{where}: {damage.reason}"
    )


def _line(row: Row) -> str:
    """Return a row as text; columns are not aligned, which would need the whole table in memory."""
    shown = row._asdict()
    if row.damage is None:
        del shown["damage"]
    elif isinstance(row, DumpedBatch):
        shown = {name: value for name, value in shown.items() if value is not None}
    return "  ".join(f"{name}={_word(value)}" for name, value in shown.items())


def _word(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_word, value)) or "-"
    if isinstance(value, dict):
        return f"base64:{value['base64']}"
    if value is None:
        return "null"
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
