"""Reads batch headers without their records, and audits a run of batches."""

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker._native.records import batch_scan
from broker._native.records.batch_scan import Audit
from broker._native.records.column import Column
from broker.codec.packages import import_optional

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer

_ROW: Final = Struct(batch_scan.ROW_FORMAT)


class BatchHeader(NamedTuple):
    """The header of one batch, or of one message of magic 0 or 1 as a batch with one record.

    position and size are bytes in the input; timestamps are ms; record_count is -1 for a compressed
    message, whose inner messages are not counted. Fields that a message does not have are -1.
    """

    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    size: int
    leader_epoch: int
    base_sequence: int
    record_count: int
    crc: int
    attributes: int
    producer_epoch: int
    magic: int


class BatchHeaders:
    """The headers of a run of batches, in order.

    Attributes:
        end: the position after the last whole batch; a batch cut short may follow.
    """

    __slots__ = ("_rows", "end")

    def __init__(self, rows: Column, end: int) -> None:
        """Hold the rows of a scan."""
        self._rows = rows
        self.end = end

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._rows) // _ROW.size

    def __iter__(self) -> Iterator[BatchHeader]:
        """Yield each header."""
        return map(BatchHeader._make, _ROW.iter_unpack(self._rows))

    def __getitem__(self, index: int) -> BatchHeader:
        """Return one header; a negative index counts from the end."""
        place = range(len(self))[index]
        return BatchHeader._make(_ROW.unpack_from(self._rows, place * _ROW.size))

    def to_numpy(self) -> "np.ndarray[Any, Any]":
        """Return a structured array over the same memory with the fields of BatchHeader."""
        numpy = import_optional("numpy", "headers as a numpy array")
        kinds = ["i8"] * 6 + ["i4"] * 4 + ["u4", "i2", "i2", "i1"]
        dtype = numpy.dtype(
            {"names": BatchHeader._fields, "formats": kinds, "itemsize": _ROW.size}, align=True
        )
        rows: np.ndarray[Any, Any] = numpy.frombuffer(self._rows, dtype)
        return rows


def scan_headers(buf: "Buffer", *, cut: bool = False) -> BatchHeaders:
    """Return the header of every whole batch or message in a run; records are not read.

    >>> from broker.codec import encode
    >>> headers = scan_headers(b"".join(encode([b"a", b"b"], timestamp_ms=7, base_offset=40)))
    >>> headers[0].base_offset, headers[0].last_offset, headers[0].record_count, headers.end
    (40, 41, 2, 77)
    >>> headers.to_numpy()["size"].tolist()
    [77]

    Args:
        buf: whole batches; a last one that is cut short is left out (see `BatchHeaders.end`).
        cut: whether to return the header of that last batch too, if the header is complete; its
            position + size is then greater than the size of `buf`.

    Raises:
        Corrupt: bytes at a position begin neither a batch nor a message.
    """
    return BatchHeaders(*batch_scan.scan_headers(buf, cut))


def audit(buf: "Buffer", state: Audit | None = None) -> Audit:
    """Count records, bytes, CRC errors, damaged batches and offset gaps in a run of batches.

    >>> from broker.codec import encode
    >>> [first], [later] = encode([b"a"], timestamp_ms=7), encode([b"b"], base_offset=5)
    >>> counts = audit(later, audit(first))
    >>> counts.records, counts.gaps, counts.missing_offsets, counts.is_valid
    (2, 1, 4, True)

    Args:
        buf: whole batches. A last batch that is cut short is not counted: pass it again with the
            bytes that follow it (`Audit.size` is the number of bytes counted).
        state: the result of an earlier call, to continue counting from there.

    Raises:
        Corrupt: bytes that begin neither a batch nor a message.
    """
    counts, _ = batch_scan.audit(buf, state)
    return counts
