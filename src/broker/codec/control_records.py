"""Transaction markers: the control batches that commit or abort a transaction in a partition.

A marker is one record. It takes one offset, and consumers do not return it (KIP-98):

    key    int16 version = 0 | int16 type: 0 abort, 1 commit; other types do not end transactions
    value  int16 version = 0 | int32 epoch of the transaction coordinator

Its batch has the producer's id and epoch and both attributes, transactional and control.

    >>> [marker] = [encode_marker(Marker(7, 0, is_committed=True, coordinator_epoch=3))]
    >>> decode_marker(marker)
    Marker(producer_id=7, producer_epoch=0, is_committed=True, coordinator_epoch=3)
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.codec.columns import records
from broker.codec.encoding import encode
from broker.codec.headers import BatchHeader, scan_headers
from broker.model.errors import Truncated

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_ABORT, _COMMIT = 0, 1
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_ATTRIBUTES_LOW_BYTE = 22


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    coordinator_epoch: int


def is_transactional(header: BatchHeader) -> bool:
    """Return whether a batch belongs to a transaction, as records or as its marker."""
    return header.attributes & _TRANSACTIONAL != 0


def is_control(header: BatchHeader) -> bool:
    """Return whether a batch holds control records."""
    return header.attributes & _CONTROL != 0


def encode_marker(
    marker: Marker, *, leader_epoch: int = -1, timestamp_ms: int | None = None
) -> bytes:
    """Return the control batch of a marker; its timestamp is the current time if none is given."""
    [batch] = encode(
        [
            (
                _KEY.pack(0, _COMMIT if marker.is_committed else _ABORT),
                _VALUE.pack(0, marker.coordinator_epoch),
            )
        ],
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
        timestamp_ms=timestamp_ms,
    )
    return batch


def decode_marker(batch: "Buffer") -> Marker | None:
    """Return the marker in a control batch; None if the control record is of another type.

    Raises:
        CodecError: the bytes are not a batch, or the record is too short for a marker.
    """
    # `records` skips control batches, so the bit is cleared. It is covered by the CRC, which is
    # therefore not checked.
    header = scan_headers(batch)[0]
    plain = bytearray(batch)
    plain[_ATTRIBUTES_LOW_BYTE] &= ~_CONTROL
    record = next(iter(records(plain, check_crc=False)), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise Truncated("a control record whose key is too short")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise Truncated("a marker without a coordinator epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(header.producer_id, header.producer_epoch, kind == _COMMIT, coordinator_epoch)
