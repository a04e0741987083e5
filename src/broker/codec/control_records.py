"""Markers: the control batches that end a producer's transaction in a partition.

One record, which takes one offset and which consumers never see (KIP-98, kafka.md 2.9):

    key    int16 version = 0 | int16 type: 0 abort, 1 commit; others are not of transactions
    value  int16 version = 0 | int32 epoch of the coordinator that decided

in a batch of the producer with both attributes, transactional and control.

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
    """Whether a batch belongs to a transaction: its records, or its marker."""
    return header.attributes & _TRANSACTIONAL != 0


def is_control(header: BatchHeader) -> bool:
    """Whether a batch holds control records."""
    return header.attributes & _CONTROL != 0


def encode_marker(
    marker: Marker, *, leader_epoch: int = -1, timestamp_ms: int | None = None
) -> bytes:
    """Return the control batch of a marker; as in `encode`, without a time it is written now."""
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
    """Return the marker of a control batch; None if it is a control batch of another kind.

    Raises:
        CodecError: the bytes are no batch, or their record is too short for a marker.
    """
    # Readers pass control records over; without the bit, which is under the CRC, they do not.
    header = scan_headers(batch)[0]
    plain = bytearray(batch)
    plain[_ATTRIBUTES_LOW_BYTE] &= ~_CONTROL
    record = next(iter(records(plain, check_crc=False)), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise Truncated("a control batch without the key of a control record")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise Truncated("a marker without the epoch of its coordinator")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(header.producer_id, header.producer_epoch, kind == _COMMIT, coordinator_epoch)
