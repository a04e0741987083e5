"""A file that only takes room: what it gives up is there for what must go on while a disk is full.

It is made whole or not at all, and only made smaller then. A clean stop removes it. A start that
finds the disk full takes from it what it has to write itself, before anything else.
"""

from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import DiskFull

FILE_NAME = "disk.reserve"


class Reserve:
    """The reserve of a data directory."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        """Nothing is made yet; an earlier life may have left one."""
        self._path = str(path / FILE_NAME)

    def size(self) -> int:
        """How many bytes it takes."""
        try:
            return int(file_ops.size(self._path))
        except FileNotFoundError:
            return 0

    def resize(self, size: int) -> int:
        """Have it take so many bytes, or none where there is no room; how many it takes now.

        StorageError when the disk fails.
        """
        present = self.size()
        if size == present:
            return present
        if size == 0:
            self.remove()
        elif size < present:
            file_ops.truncate(self._path, size)
        else:
            self.remove()
            try:
                file_ops.reserve_file(self._path, size)
            except DiskFull:
                return 0
        return size

    def give_way(self, size: int) -> None:
        """See to it that so many bytes of the disk are free, as far as the reserve has them.

        StorageError when the disk fails.
        """
        present = self.size()
        free = file_ops.space(str(Path(self._path).parent))[1] if present > 0 else size
        if free < size:
            self.resize(max(present - (size - free), 0))

    def remove(self) -> None:
        """Give up all of it."""
        try:
            file_ops.remove(self._path)
        except FileNotFoundError:
            return
