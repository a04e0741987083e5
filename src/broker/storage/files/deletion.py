"""The folders of deleted topics: renamed first, removed in bounded steps later.

A folder is renamed to `<topic>-<partition>.<topic id>-delete`, a name that no topic uses, so that a
topic of the same name can be created while the old files still exist.

Another directory than the data directory may fail: the rest is renamed and removed without it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.model.limits import FILES_REMOVED_PER_STEP, FOLDER_NAME_BYTES_MAX
from broker.segments import text_files

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_log = logging.getLogger(__name__)


def renamed_folder(folder: Path, suffix: str) -> Path:
    """Return a name for a partition's folder that no partition has.

    A long topic name is cut, as in Kafka.
    """
    topic, dash, partition = folder.name.rpartition("-")
    ending = f"{dash}{partition}.{suffix}"
    return folder.with_name(topic[: FOLDER_NAME_BYTES_MAX - len(ending)] + ending)


def deleted_folder(folder: Path, topic_id: bytes) -> Path:
    """Return the name of a deleted partition's folder until its removal."""
    return renamed_folder(folder, id_to_text(topic_id) + DELETE_SUFFIX)


def _held(_topic: str, _partition: int) -> AbstractContextManager[bool]:
    return nullcontext(enter_result=True)


class DeletedFolders:
    """The folders of deleted topics in the data directory and other directories."""

    def __init__(
        self,
        path: Path,
        held: Callable[[str, int], AbstractContextManager[bool]] = _held,
        others: Iterable[Path] = (),
    ) -> None:
        """Set the data directory.

        Args:
            path: the data directory.
            held: holds the folder of a topic's partition within a block, and returns whether no
                other process has it: that one renames it itself.
            others: more directories with folders of partitions.
        """
        self._path = path
        self._directories = (path, *others)
        self._held = held
        self._failed: set[Path] = set()

    @property
    def is_complete(self) -> bool:
        """Whether no directory has failed: one that has is left to the next start."""
        return not self._failed

    def put_away(
        self, topic: str, topic_id: bytes, partitions: Iterable[int], *, is_name_taken: bool
    ) -> None:
        """Rename the folders of a deleted topic; not durable before `sync`.

        A missing folder was renamed before. When another topic of that name exists, a folder
        without a topic id belongs to it, because it was created after these renames were durable.
        """
        for partition in partitions:
            with self._held(topic, partition) as is_held:
                if is_held:
                    for directory in self._usable():
                        folder = directory / f"{topic}-{partition}"
                        with self._surviving(directory):
                            self._put_away(folder, topic_id, is_name_taken=is_name_taken)

    @staticmethod
    def _put_away(folder: Path, topic_id: bytes, *, is_name_taken: bool) -> None:
        owner = text_files.read_partition_metadata(folder)
        if owner != topic_id and (owner is not None or is_name_taken):
            return
        with suppress(FileNotFoundError):
            file_ops.rename(str(folder), str(deleted_folder(folder, topic_id)))

    def put_away_moved(self, topic: str, topic_id: bytes, partition: int) -> list[Path]:
        """Rename the folder of a partition whose replicas other brokers have; return its path.

        What is left of its folder of an earlier move is removed: that has the same name.
        """
        folders = self.waiting(topic, topic_id, [partition])
        for each in folders:
            remove_folder(each)
        self.put_away(topic, topic_id, [partition], is_name_taken=True)
        self.sync()
        return folders

    def sync(self) -> None:
        """Make the renames durable; then a topic of the same name may be created."""
        for directory in self._usable():
            with self._surviving(directory):
                file_ops.sync_folder(str(directory))

    def _usable(self) -> list[Path]:
        return [each for each in self._directories if each not in self._failed]

    @contextmanager
    def _surviving(self, directory: Path) -> Iterator[None]:
        """Leave a directory out, from now on, that fails within the block; not the first one."""
        try:
            yield
        except (StorageError, FileNotFoundError) as error:
            if directory == self._path:
                raise
            self._failed.add(directory)
            _log.warning(
                "folders of deleted topics stay until the next start: path=%s error=%s",
                directory,
                error,
            )

    def waiting(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> list[Path]:
        """Return where the renamed folders of a deleted topic are or were."""
        return [
            deleted_folder(directory / f"{topic}-{n}", topic_id)
            for n in partitions
            for directory in self._directories
        ]

    def remove_some(self, folders: deque[Path]) -> None:
        """Remove a bounded number of files of the first folders, and folders that are empty."""
        left = FILES_REMOVED_PER_STEP
        while folders and left > 0:
            folder = folders[0]
            if folder.parent in self._failed:
                folders.popleft()
                continue
            with self._surviving(folder.parent):
                for name in _first_names(folder, left):
                    with suppress(FileNotFoundError):  # by another broker of a shared directory
                        file_ops.remove(str(folder / name))
                    left -= 1
                if left > 0:
                    left -= 1
                    remove_folder(folders.popleft())


def remove_folder(folder: Path) -> None:
    """Remove a folder with its files; it may be gone already."""
    with suppress(FileNotFoundError):
        for name in file_ops.list_folder(str(folder)):
            file_ops.remove(str(folder / name))
        file_ops.remove(str(folder))


def _first_names(folder: Path, at_most: int) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from file_ops.list_folder(str(folder))[:at_most]
