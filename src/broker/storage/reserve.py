"""A file that reserves disk space, to be released for necessary writes while the disk is full.

It is created with its full size or not at all, and then only shrinks. A clean stop removes it. A
start on a full disk first releases the space that it needs for its own writes.
"""

from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import DiskFull

FILE_NAME = "disk.reserve"


class Reserve:
    """The reserve of a data directory."""

    def __init__(self, path: Path) -> None:
        """Set the data directory; an earlier run may have left a reserve."""
        self._path = str(path / FILE_NAME)

    def size(self) -> int:
        """Return its size in bytes."""
        try:
            return int(file_ops.size(self._path))
        except FileNotFoundError:
            return 0

    def resize(self, size: int) -> None:
        """Set its size, or remove it if the disk has no space for that.

        StorageError when the disk fails.
        """
        present = self.size()
        if 0 < size < present:
            file_ops.truncate(self._path, size)
        elif size != present:
            self.remove()
            if size > 0:
                with suppress(DiskFull):
                    file_ops.reserve_file(self._path, size)

    def free_disk_space(self, size: int) -> None:
        """Shrink the reserve until `size` bytes of the disk are free, as far as possible.

        StorageError when the disk fails.
        """
        present = self.size()
        free = file_ops.space(str(Path(self._path).parent))[1] if present > 0 else size
        if free < size:
            self.resize(max(present - (size - free), 0))

    def remove(self) -> None:
        """Release all of it."""
        with suppress(FileNotFoundError):
            file_ops.remove(self._path)
