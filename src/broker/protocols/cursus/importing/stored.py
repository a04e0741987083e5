"""The bytes of one record in a segment of the original Cursus.

    topic u16+bytes | partition u32 | offset u64 | producer id u16+bytes | sequence u64 | epoch u64
    | payload u32+bytes
    [ event type u16+bytes | schema version u32 | aggregate version u64 | metadata u16+bytes
    [ key u16+bytes
    [ transactional id, state, marker: u16+bytes each
    [ control type u16+bytes | version u16 | coordinator epoch u64
    [ control key, control value: u16+bytes each
    [ event id, payload digest: u16+bytes each ]]]]]]

Integers are big-endian. Each bracket came with a newer version: a record ends before any of them,
never within one.
"""

import struct
from typing import Final, NamedTuple

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">IQ")  # partition, offset
_PRODUCER: Final = struct.Struct(">QQ")  # sequence, epoch
_EVENT: Final = struct.Struct(">IQ")  # schema version, aggregate version
_CONTROL: Final = struct.Struct(">HQ")  # version, coordinator epoch
_EPOCH_MAX: Final = (1 << 63) - 1


class StoredRecord(NamedTuple):
    """A decoded record; what it does not have is empty or 0."""

    topic: bytes
    partition: int
    offset: int
    producer_id: bytes
    sequence: int
    epoch: int
    payload: bytes
    event_type: bytes = b""
    schema_version: int = 0
    aggregate_version: int = 0
    metadata: bytes = b""
    key: bytes = b""
    transactional_id: bytes = b""
    state: bytes = b""  # of its transaction when it was written
    marker: bytes = b""  # commit or abort: the end of a transaction, no record of a client


class _Reader:
    """Takes fields off the front; raises ValueError if there are too few bytes."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def has_more(self) -> bool:
        return self._at < len(self._data)

    def numbers(self, shape: struct.Struct, what: str) -> tuple[int, ...]:
        if self._at + shape.size > len(self._data):
            raise ValueError(f"it ends in its {what}")
        found: tuple[int, ...] = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return found

    def text(self, what: str, shape: struct.Struct = _U16) -> bytes:
        [size] = self.numbers(shape, what)
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"it ends in its {what}")
        found = self._data[self._at : end]
        self._at = end
        return found


def decode(data: bytes) -> StoredRecord:
    """Return the record of these bytes; raise ValueError with the reason why there is none."""
    reader = _Reader(data)
    topic = reader.text("topic")
    partition, offset = reader.numbers(_PLACE, "offset")
    producer_id = reader.text("producer id")
    sequence, epoch = reader.numbers(_PRODUCER, "epoch")
    if epoch > _EPOCH_MAX:
        raise ValueError("its epoch is negative")
    payload = reader.text("payload", _U32)
    record = StoredRecord(topic, partition, offset, producer_id, sequence, epoch, payload)
    if not reader.has_more():
        return record
    event_type = reader.text("event type")
    schema_version, aggregate_version = reader.numbers(_EVENT, "aggregate version")
    metadata = reader.text("metadata")
    key = reader.text("key") if reader.has_more() else b""
    ends = [b"", b"", b""]
    if reader.has_more():
        ends = [reader.text(f"transaction's {what}") for what in ("id", "state", "marker")]
        _read_rest(reader)
    return record._replace(
        event_type=event_type,
        schema_version=schema_version,
        aggregate_version=aggregate_version,
        metadata=metadata,
        key=key,
        transactional_id=ends[0],
        state=ends[1],
        marker=ends[2],
    )


def _read_rest(reader: _Reader) -> None:
    """Read what is not imported; raise ValueError if it is incomplete, or if more follows."""
    if reader.has_more():
        reader.text("control type")
        reader.numbers(_CONTROL, "control batch")
    for what in ("control key", "control value", "event id", "payload digest"):
        if reader.has_more():
            reader.text(what)
    if reader.has_more():
        raise ValueError("it has more fields than are known")
