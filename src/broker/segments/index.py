"""A segment's two index files as structured arrays.

    .index      int32 relative offset of a batch's last record | int32 position of that batch
    .timeindex  int64 largest timestamp so far, ms | int32 relative offset of the batch that has it

Big-endian, ascending, sparse. Kafka maps and preallocates them and truncates them when the segment
is sealed. So they are read, not mapped: a mapped page that is truncated would end the reader.
"""

from bisect import bisect_left, bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.codec.packages import import_optional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OFFSET_ENTRY: Final = (("relative_offset", ">i4"), ("position", ">i4"))
TIME_ENTRY: Final = (("timestamp", ">i8"), ("relative_offset", ">i4"))

_BATCH_SIZE_MIN: Final = 26  # an empty message of magic 0


class Index:
    """One index file, read on first use and again when its size has changed."""

    def __init__(self, path: Path, fields: tuple[tuple[str, str], ...]) -> None:
        """Set the file's path; `fields` are those of an entry."""
        self._path = path
        self._dtype = numpy_module().dtype(list(fields))
        self._entries: NDArray[np.void] = numpy_module().empty(0, self._dtype)
        self._size = 0

    def entries(self, log_size: int) -> "NDArray[np.void]":
        """Return the entries for a log of `log_size` bytes, none if there never was a file.

        Preallocated zeros and an incomplete entry at the end are left out. Nothing else is checked.
        """
        with suppress(FileNotFoundError):
            size = self._path.stat().st_size
            if size != self._size:
                self._entries = self._read(log_size)
                self._size = size
        return self._entries

    def _read(self, log_size: int) -> "NDArray[np.void]":
        entry_size = self._dtype.itemsize
        entries_max = log_size // _BATCH_SIZE_MIN  # there are no more batches than that
        with self._path.open("rb") as file:
            content = file.read(entries_max * entry_size)
        used = len(content.rstrip(b"\0"))
        count = min(-(-used // entry_size), len(content) // entry_size)
        entries: NDArray[np.void] = numpy_module().frombuffer(content, self._dtype, count)
        return entries


def floor(keys: "NDArray[Any]", bound: int) -> int:
    """Return the index of the last key that is not above a bound, or -1.

    numpy's searchsorted would first copy all keys to the machine's byte order.
    """
    return bisect_right(keys, bound) - 1


def below(keys: "NDArray[Any]", bound: int) -> int:
    """Return the index of the last key that is below a bound, or -1."""
    return bisect_left(keys, bound) - 1


def numpy_module() -> Any:  # noqa: ANN401 - a module, typed where it is used
    """Return numpy; Unsupported when it is not installed."""
    return import_optional("numpy", "broker.segments")
