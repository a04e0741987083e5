"""`broker segment dump`: batches or records, one per line, in the memory of one batch.

Each segment is examined for damage first; then the intact ranges are read again and printed, with
the damaged ranges between them.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from broker._native.kernel import file_ops
from broker._native.log.segment_check import Damage
from broker.codec import BatchHeader, records, scan_headers
from broker.model.compressions import COMPRESSIONS
from broker.model.errors import CodecError
from broker.model.limits import DUMP_READ_BYTES
from broker.segments.verification import LocatedSegment, examined

# The fields of a line by name.
Row: TypeAlias = dict[str, Any]

_CODEC: Final = 0x07
_FLAGS: Final = (
    (0x08, "log-append-time"),
    (0x10, "transactional"),
    (0x20, "control"),
    (0x40, "delete-horizon"),
)
_CONTROL: Final = 0x20


def run(places: Sequence[LocatedSegment], output: str, *, has_records: bool) -> int:
    """Print the batches or records of segments; return 1 if one of them is damaged."""
    is_damaged = False
    for place in places:
        for row in rows(place, has_records=has_records):
            is_damaged |= "damage" in row
            print(json.dumps(row) if output == "jsonl" else _line(row))
    return int(is_damaged)


def rows(place: LocatedSegment, *, has_records: bool) -> Iterator[Row]:
    """Yield a row for each batch or record, and for each damaged range, in order of position."""
    position = 0
    found = examined(place, lambda _: None, has_digest=False)
    for damage in found.damages:
        yield from _intact_rows(place, position, damage.position, has_records=has_records)
        yield _damage_row(place, damage)
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


def _batch_row(place: LocatedSegment, start: int, header: BatchHeader) -> Row:
    return {
        "segment": place.name,
        "position": start + header.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "flags": [word for bit, word in _FLAGS if header.attributes & bit],
        "compression": COMPRESSIONS[header.attributes & _CODEC].name,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "crc": "ok",
    }


def _record_rows(
    place: LocatedSegment, start: int, header: BatchHeader, batch: bytes
) -> Iterator[Row]:
    """Yield the records of an intact batch; a control batch is shown as a batch."""
    if header.attributes & _CONTROL:
        yield _batch_row(place, start, header)
        return
    try:
        for record in records(batch, check_crc=False):
            yield {
                "segment": place.name,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _shown(record.key),
                "value": _shown(record.value),
                "headers": [[_shown(key), _shown(value)] for key, value in record.headers],
            }
    except CodecError as error:  # its CRC is correct: the batch was written like this
        position = start + header.position
        damage = Damage(
            position,
            position + header.size,
            header.base_offset,
            header.last_offset + 1,
            error.reason,
        )
        yield _damage_row(place, damage)


def _damage_row(place: LocatedSegment, damage: Damage) -> Row:
    fields = damage._asdict()
    return {"segment": place.name, "damage": fields.pop("reason"), **fields}


def _shown(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text if they are UTF-8, otherwise as {"base64": ...}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _line(row: Row) -> str:
    """Return a row as text; columns are not aligned, which would need the whole table in memory."""
    return "  ".join(f"{name}={_text_of(value)}" for name, value in row.items())


def _text_of(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(_text_of, value)) or "-"
    if isinstance(value, dict):
        return f"base64:{value['base64']}"
    if value is None:
        return "null"
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)
