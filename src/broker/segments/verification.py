"""Finds and checks segments on the disk, with or without a running broker.

A path is a segment's `.log`, a partition's folder or a data directory (or a snapshot of one). The
last segment of a folder is its active one, and is checked up to its last whole batch: bytes after
it are preallocated, being written or torn by a crash, and the next start truncates them. Only after
a clean stop such bytes are damage. Stray and deleted folders are ignored.

A broker may replace or remove files meanwhile: a segment with errors is checked again when its file
or its digest has changed since, and a missing one is ignored. During a compaction's swap, digests
of the folder are not compared, because it is unclear which file they belong to.
"""

import logging
from collections.abc import Callable
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker.model.errors import ConfigError, Truncated
from broker.model.limits import SEGMENT_CHECK_STEP_BYTES, VERIFY_TRIES
from broker.segments import text_files
from broker.segments.digests import read_digest
from broker.segments.integrity import Examination, Verdict
from broker.segments.names import LOG, SWAP, file_name, is_offset_file, offsets_of

_log = logging.getLogger(__name__)
# Called with the number of bytes checked since the last call.
Progress = Callable[[int], None]


class LocatedSegment(NamedTuple):
    """A segment that was found.

    Attributes:
        name: path of its log, relative to the given one.
        folder: its partition's folder.
        base_offset: of the segment.
        end_offset: base offset of the next segment; -1: it is the last.
        is_active: whether bytes after its last whole batch are not damage.
    """

    name: str
    folder: Path
    base_offset: int
    end_offset: int
    is_active: bool

    @property
    def file(self) -> Path:
        """The path of its log."""
        return self.folder / file_name(self.base_offset, LOG)


def find(path: Path) -> list[LocatedSegment]:
    """Return the segments under a path, by folder and offset.

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
                segment
                for folder in folders
                if folder.is_dir()
                for segment in _in_folder(folder, f"{folder.name}/")
            ]
    else:
        raise ConfigError(f"{path}: no such file or folder")
    if not found and not (path / text_files.META_PROPERTIES).exists():
        raise ConfigError(
            f"{path}: expected a segment (<20 digits>.log), a partition's folder or a data"
            " directory"
        )
    return found


def verify(segment: LocatedSegment, progress: Progress) -> Verdict | None:
    """Check every byte of a segment; return None if it no longer exists.

    Raises StorageError when it cannot be read, CodecError when it changes at each try.
    """
    for _ in range(VERIFY_TRIES):
        try:
            swaps = (is_offset_file(each, SWAP) for each in file_ops.list_folder(segment.folder))
            has_digest = segment.end_offset >= 0 and not any(swaps)
            found = examined(segment, progress, has_digest=has_digest)
            if found.is_valid or not _has_changed(segment, found):
                return found
        except FileNotFoundError:
            return None
        except Truncated as error:  # retry: a broker truncates the last segment when it closes it
            _log.debug("checked again: %s", error)
    raise Truncated(f"{segment.file}: replaced or truncated repeatedly while it was read")


def examined(segment: LocatedSegment, progress: Progress, *, has_digest: bool) -> Verdict:
    """Return the result of examining a segment once; see Examination for arguments and errors."""
    examination = Examination(
        segment.folder,
        segment.base_offset,
        segment.end_offset,
        is_active=segment.is_active,
        has_digest=has_digest,
    )
    with closing(examination):
        is_more = True
        while is_more:
            before = examination.position
            is_more = examination.step(SEGMENT_CHECK_STEP_BYTES)
            progress(examination.position - before)
        return examination.verdict()


def _has_changed(segment: LocatedSegment, found: Verdict) -> bool:
    if file_ops.inode(segment.file) != found.inode:
        return True
    is_last = segment.end_offset < 0
    recorded = None if is_last else read_digest(segment.folder, segment.base_offset)
    return recorded != found.recorded and recorded is not None


def _in_folder(folder: Path, prefix: str) -> list[LocatedSegment]:
    try:
        bases = offsets_of(file_ops.list_folder(folder), LOG)
    except FileNotFoundError:
        return []
    is_clean = (folder.parent / text_files.CLEAN_SHUTDOWN).exists()
    return [
        LocatedSegment(
            prefix + file_name(base, LOG), folder, base, end, is_active=end < 0 and not is_clean
        )
        for base, end in zip_longest(bases, bases[1:], fillvalue=-1)
    ]
