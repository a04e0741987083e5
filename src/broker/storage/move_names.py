"""Names of the folders of a move of one partition between directories, which has an id.

    <topic>-<partition>                     in its present directory
    <topic>-<partition>.<id>-future         the copy in the other one; whole only once the next
                                            name is there
    <topic>-<partition>.<id>-moved          the old folder, once the copy is whole and synced:
                                            this durable renaming decides that the copy counts
    <topic>-<partition>                     the copy at last, in the other directory

A start completes a move whose old folder has that name, and removes any other copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from broker.model.limits import FOLDER_NAME_BYTES_MAX

FUTURE_SUFFIX = "-future"  # Kafka's
MOVED_SUFFIX = "-moved"
_ID_SIZE = 22  # of an id as text


class Unfinished(NamedTuple):
    """A copy that was whole when the broker ended."""

    name: str  # of the partition's folder
    copy: Path
    left_in: Path  # the directory that has the old folder


def copy_folder(directory: Path, name: str, move_id: str) -> Path:
    """Return the copy's folder in a directory, of a partition whose folder has that name."""
    return directory / f"{name}.{move_id}{FUTURE_SUFFIX}"


def left_folder(folder: Path, move_id: str) -> Path:
    """Return the name of a partition's old folder after its move."""
    return folder.with_name(f"{folder.name}.{move_id}{MOVED_SUFFIX}")


def is_too_long(name: str) -> bool:
    """Return whether a partition's folder has too long a name to be moved."""
    added = max(len(FUTURE_SUFFIX), len(MOVED_SUFFIX)) + 1 + _ID_SIZE
    return len(name) + added > FOLDER_NAME_BYTES_MAX


def partition_name(name: str, suffix: str) -> str | None:
    """Return the name of the partition's folder, given another one of its move; None: no move's."""
    parts = _parts(name, suffix)
    return None if parts is None else parts[0]


def unfinished(names: Mapping[Path, Sequence[str]]) -> Iterator[Unfinished]:
    """Yield the whole copies that have not got their final names, given each directory's names."""
    left = {
        parts: directory
        for directory, its_names in names.items()
        for name in its_names
        if (parts := _parts(name, MOVED_SUFFIX)) is not None
    }
    for directory, its_names in names.items():
        for name in its_names:
            copied = _parts(name, FUTURE_SUFFIX)
            if copied is not None and copied in left:
                yield Unfinished(copied[0], directory / name, left[copied])


def _parts(name: str, suffix: str) -> tuple[str, str] | None:
    """Return the name of the partition's folder, and the id of the move."""
    if not name.endswith(suffix):
        return None
    partition, _, move_id = name.removesuffix(suffix).rpartition(".")
    is_partition = partition.rpartition("-")[2].isdigit()
    return (partition, move_id) if is_partition else None
