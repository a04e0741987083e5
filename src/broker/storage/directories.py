"""Where the folders of partitions are: in the data directory, and in others of log.dirs.

A new partition is put where the most free bytes are for each partition of the directory. A
directory that cannot be used is missing: a partition that no other directory has may be there, so
it is not created anew. The rest is served.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import DataDirError, DiskFull, StorageError
from broker.segments import text_files

PROBE = ".probe"  # a small file that shows whether a directory takes writes
_log = logging.getLogger(__name__)


class Directories:
    """Where the folders of partitions are.

    Attributes:
        home: the first directory.
        missing: the directories that cannot be used, with the reason.
        measure: returns the free bytes of a directory.
    """

    def __init__(
        self, home: Path, others: Sequence[Path] = (), missing: Mapping[Path, str] | None = None
    ) -> None:
        """Find the folders; DataDirError if two directories have the same partition."""
        self.home = home
        self.measure: Callable[[Path], int] = _usable_bytes
        self.missing = dict(missing or {})
        self._all = [home, *others]
        self._places: dict[str, Path] = {}  # directory of each folder of a partition
        self._others: dict[str, list[Path]] = {}  # more directories of a folder
        self._counts: Counter[Path] = Counter()  # of folders; unused with one directory
        self._failed: set[Path] = set()  # nothing new is made in them
        for directory in list(self._all) if others or missing else ():
            for name in self.names(directory):
                if name.rpartition("-")[2].isdigit():
                    self._found(name, directory)

    def __iter__(self) -> Iterator[Path]:
        """Return those that can be used, the home first."""
        return iter(self._all)

    def names(self, directory: Path) -> list[str]:
        """Return what is in a directory; none if it cannot be read, and is missing from now on."""
        try:
            names: list[str] = file_ops.list_folder(str(directory))
        except (StorageError, FileNotFoundError) as error:
            self._lose(directory, error)
            return []
        return names

    def _lose(self, directory: Path, error: Exception) -> None:
        """Leave out another directory than the home, whose failure is that of the broker."""
        if directory == self.home:
            raise error
        _log.error("directory is missing: path=%s reason=%s", directory, error)
        self.missing[directory] = str(error)
        self._all.remove(directory)
        self._places = {name: at for name, at in self._places.items() if at != directory}

    def _found(self, name: str, directory: Path) -> None:
        other = self._places.get(name)
        if other is None:
            self._places[name] = directory
        elif _owner(other / name) == _owner(directory / name) is not None:
            raise DataDirError(
                f"{other / name} and {directory / name} are the same partition: move the one away"
                " that is a copy"
            )
        else:  # one is of a topic that was deleted while its directory was missing
            self._others.setdefault(name, []).append(directory)
        self._counts[directory] += 1

    def folder(self, name: str, topic_id: bytes, *, is_new: bool = False) -> Path:
        """Return the folder of a topic's partition; where it is to be made, if there is none.

        One that is not new and not found is in a missing directory, if there is one.
        """
        if len(self._all) == 1 and not self.missing:
            return self.home / name
        for other in self._others.get(name, ()):
            if _owner(other / name) == topic_id:
                return other / name
        directory = self._places.get(name)
        if directory is None and self.missing and not is_new:
            return next(iter(self.missing)) / name
        if directory is None:
            directory = max(self._all, key=self._room)
            self._places[name] = directory
            self._counts[directory] += 1
        return directory / name

    def has(self, name: str) -> bool:
        """Return whether there is a folder of that name."""
        return any((directory / name).exists() for directory in self._all)

    def forget(self, name: str) -> None:
        """Forget a partition that was deleted: the next one of its name may be elsewhere."""
        directory = self._places.pop(name, None)
        if directory is not None:
            self._counts[directory] -= 1
        for other in self._others.pop(name, ()):
            self._counts[other] -= 1

    def check(self, folders: Iterable[Path]) -> None:
        """Make nothing new, from now on, where that has failed and nothing can be written."""
        for directory in {folder.parent for folder in folders} - {self.home}:
            try:
                file_ops.write_file_atomic(str(directory / PROBE), b"")
            except DiskFull:
                pass  # until there is space
            except StorageError as error:
                _log.error("directory has failed: path=%s reason=%s", directory, error)
                self._failed.add(directory)

    def _room(self, directory: Path) -> float:
        """Return the free bytes for each partition, with one more."""
        if directory in self._failed:
            return -1
        try:
            return self.measure(directory) / (self._counts[directory] + 1)
        except (StorageError, FileNotFoundError):
            return -1

    def settle(self) -> None:
        """Make the names durable that an earlier run has left; one that fails is missing."""
        for directory in list(self._all):
            try:
                file_ops.sync_folder(str(directory))
            except (StorageError, FileNotFoundError) as error:
                self._lose(directory, error)


def _usable_bytes(directory: Path) -> int:
    _, usable_bytes, _, _ = file_ops.space(str(directory))
    return usable_bytes


def _owner(folder: Path) -> bytes | None:
    try:
        return text_files.read_partition_metadata(folder)
    except StorageError:
        return None
