"""Where the folders of partitions are: in the data directory, and in others of log.dirs.

A new partition is put where the most free bytes are for each partition of the directory. A
directory that cannot be used is missing: a partition that no other directory has may be there, so
it is not created anew. The rest is served. Moves between directories are completed at a start
(move_names.py).
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import DataDirError, DiskFull, StorageError
from broker.segments import text_files
from broker.storage import move_names
from broker.storage.move_limits import PREFERRED_DIRECTORIES_MAX

PROBE = ".probe"  # a small file that shows whether a directory takes writes
_log = logging.getLogger(__name__)


class Directories:
    """Where the folders of partitions are.

    Attributes:
        home: the first directory.
        missing: the directories that cannot be used, with the reason.
        measure: returns the free bytes of a directory.
        moving: partitions whose moves had not ended when the broker did, by the name of the folder,
            with the directory to which each was moved.
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
        self._preferred: dict[str, Path] = {}  # of partitions that do not exist yet
        self.moving: dict[str, Path] = {}
        if others or missing:
            self._find()

    def _find(self) -> None:
        listed = {directory: self.names(directory) for directory in list(self._all)}
        for directory, names in listed.items():
            for name in names:
                if name.rpartition("-")[2].isdigit() and directory in self._all:
                    self._found(name, directory)
        for each in move_names.unfinished(listed):
            if each.name not in self._places:
                self._complete(each)
        for directory, names in listed.items():
            for copied in names:
                moved = move_names.partition_name(copied, move_names.FUTURE_SUFFIX)
                at = None if moved is None else self._places.get(moved)
                if moved is not None and at not in (None, directory):
                    self.moving[moved] = directory

    def _complete(self, move: move_names.Unfinished) -> None:
        """Give a whole copy its final name, durably, once that of the old folder is durable."""
        directory = move.copy.parent
        for each in (move.left_in, directory):
            if not self._is_synced(each):
                return
        try:
            file_ops.rename(str(move.copy), str(directory / move.name))
        except (StorageError, FileNotFoundError) as error:
            self._lose(directory, error)
            return
        if self._is_synced(directory):
            _log.info("move completed: folder=%s", directory / move.name)
            self._found(move.name, directory)

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
            directory = self._preferred.pop(name, None)
            if directory is None or not self.takes(directory):
                directory = max(self._all, key=self._room)
            self._places[name] = directory
            self._counts[directory] += 1
        return directory / name

    def takes(self, directory: Path) -> bool:
        """Return whether a directory can be used, and has not failed."""
        return directory in self._all and directory not in self._failed

    @property
    def lost(self) -> list[Path]:
        """The directories that are missing or have failed."""
        return sorted({*list(self.missing), *list(self._failed)})  # (other threads add some)

    def check_mounted(self, directory: Path) -> None:
        """Raise StorageError if there is another directory now: its disk is not mounted any more.

        What is not found there is not made anew, by which it would be on another disk, and empty.
        """
        if directory != self.home and not (directory / text_files.META_PROPERTIES).exists():
            raise StorageError(f"{directory} is not the one that was opened: is the disk mounted?")

    def prefer(self, name: str, directory: Path) -> None:
        """Make a partition that does not exist yet in a directory, when it is made in this run."""
        self._preferred.pop(name, None)
        self._preferred[name] = directory
        if len(self._preferred) > PREFERRED_DIRECTORIES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def moved(self, name: str, directory: Path) -> None:
        """Note that a partition has another directory now."""
        before = self._places.get(name)
        if before is not None:
            self._counts[before] -= 1
        self._places[name] = directory
        self._counts[directory] += 1

    def knows(self, name: str) -> bool:
        """Return whether a partition has its place; with one directory none needs to be known."""
        return name in self._places

    def is_held(self, name: str) -> bool:
        """Return whether a partition is in a directory that has failed, which removes nothing."""
        return self._places.get(name) in self._failed

    def has(self, name: str) -> bool:
        """Return whether there is a folder of that name."""
        return any((directory / name).exists() for directory in self._all)

    def forget(self, name: str) -> None:
        """Forget a partition that was deleted: the next one of its name may be elsewhere."""
        self.moving.pop(name, None)
        directory = self._places.pop(name, None)
        if directory is not None:
            self._counts[directory] -= 1
        for other in self._others.pop(name, ()):
            self._counts[other] -= 1

    def check(self, folders: Iterable[Path]) -> None:
        """Make nothing new, from now on, where that has failed and nothing can be written."""
        for directory in {folder.parent for folder in folders} - {self.home}:
            try:
                self.check_mounted(directory)
                file_ops.write_file_atomic(str(directory / PROBE), b"")
            except DiskFull:
                pass  # until there is space
            except (StorageError, FileNotFoundError) as error:
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
            self._is_synced(directory)

    def _is_synced(self, directory: Path) -> bool:
        if directory not in self._all:
            return False
        try:
            file_ops.sync_folder(str(directory))
        except (StorageError, FileNotFoundError) as error:
            self._lose(directory, error)
            return False
        return True


def _usable_bytes(directory: Path) -> int:
    _, usable_bytes, _, _ = file_ops.space(str(directory))
    return usable_bytes


def _owner(folder: Path) -> bytes | None:
    try:
        return text_files.read_partition_metadata(folder)
    except StorageError:
        return None
