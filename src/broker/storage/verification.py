"""Segments on the disk, found and looked at without their broker, or beside it.

A path is a segment's `.log`, a partition's folder or a data directory (a snapshot is one). The last
segment of a folder is its active one, and is read as far as it is whole: what follows is reserved,
being written or torn by a crash, which the next start cuts off. Only after a clean stop nothing may
follow, and then it is damage. Folders that a broker has set aside or deleted are left out.

A broker may replace or remove files meanwhile: a segment that is found wrong is looked at again
when its file or its digest has changed since, and one that has gone is left out. While files of a
folder are being swapped, digests there are not compared: which file one belongs to is open.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker.model.errors import ConfigError, Truncated
from broker.model.limits import SEGMENT_CHECK_STEP_BYTES, VERIFY_TRIES
from broker.storage import checkpoint, digests
from broker.storage.folder_plan import offsets_of
from broker.storage.segment_files import LOG, SWAP, file_name, is_offset_file
from broker.storage.segment_integrity import Examination, Verdict

_log = logging.getLogger(__name__)
# Told how many bytes were looked at since the last time.
Progress = Callable[[int], None]


class LocatedSegment(NamedTuple):
    """A segment that was found.

    Attributes:
        name: of its log, below the path that was given.
        folder: that it is in.
        base_offset: its own.
        end_offset: where the next one begins; -1: it is the last.
        is_active: whether what follows its last whole batch is no damage.
    """

    name: str
    folder: Path
    base_offset: int
    end_offset: int
    is_active: bool

    @property
    def file(self) -> Path:
        """Its log."""
        return self.folder / file_name(self.base_offset, LOG)


def find(path: Path) -> list[LocatedSegment]:
    """The segments under a path, by folder and offset.

    Raises ConfigError when there are none, unless it is a data directory without topics.
    """
    if path.is_file():
        found = [each for each in _in_folder(path.parent, "") if each.file.name == path.name]
    elif path.is_dir():
        names = file_ops.list_folder(path)
        if offsets_of(names, LOG):
            found = _in_folder(path, "")
        else:
            folders = (path / name for name in sorted(names) if name.rpartition("-")[2].isdigit())
            found = [
                place
                for folder in folders
                if folder.is_dir()
                for place in _in_folder(folder, f"{folder.name}/")
            ]
    else:
        raise ConfigError(f"{path}: there is no such file or folder")
    if not found and not (path / checkpoint.META_PROPERTIES).exists():
        raise ConfigError(
            f"{path}: expected a segment (<20 digits>.log), a partition's folder or a data"
            " directory"
        )
    return found


def look_at(place: LocatedSegment, progress: Progress) -> Verdict | None:
    """Look at every byte of a segment; None: it has gone.

    Raises StorageError when the disk cannot read it, CodecError when it never stays as it is.
    """
    for _ in range(VERIFY_TRIES):
        try:
            found = _examined(place, progress)
            if found.is_sound or not _has_changed(place, found):
                return found
        except FileNotFoundError:
            return None
        except Truncated as error:  # once more: the last segment may be cut when it is closed
            _log.debug("looked at again: %s", error)
    raise Truncated(f"{place.file}: replaced or cut again and again while it was read")


def _examined(place: LocatedSegment, progress: Progress) -> Verdict:
    is_swapping = any(is_offset_file(name, SWAP) for name in file_ops.list_folder(place.folder))
    examination = Examination(
        place.folder,
        place.base_offset,
        place.end_offset,
        is_active=place.is_active,
        has_digest=place.end_offset >= 0 and not is_swapping,
    )
    try:
        is_more = True
        while is_more:
            before = examination.position
            is_more = examination.step(SEGMENT_CHECK_STEP_BYTES)
            progress(examination.position - before)
        return examination.verdict()
    finally:
        examination.close()


def _has_changed(place: LocatedSegment, found: Verdict) -> bool:
    if file_ops.inode(place.file) != found.inode:
        return True
    recorded = None if place.end_offset < 0 else digests.read(place.folder, place.base_offset)
    return recorded != found.recorded and recorded is not None


def _in_folder(folder: Path, prefix: str) -> list[LocatedSegment]:
    with suppress(FileNotFoundError):
        bases = offsets_of(file_ops.list_folder(folder), LOG)
        is_clean = (folder.parent / checkpoint.CLEAN_SHUTDOWN).exists()
        return list(_places(folder, prefix, bases, is_clean=is_clean))
    return []


def _places(
    folder: Path, prefix: str, bases: list[int], *, is_clean: bool
) -> Iterator[LocatedSegment]:
    for base, end in zip_longest(bases, bases[1:]):
        is_active = end is None and not is_clean
        yield LocatedSegment(
            prefix + file_name(base, LOG), folder, base, -1 if end is None else end, is_active
        )
