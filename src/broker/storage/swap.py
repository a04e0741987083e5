"""Putting a compacted segment in the place of those it was made from, so that no crash mixes them.

    <base>.log.cleaned ...   written and synced by the compactor; worth nothing yet
    <base>.log.swap ...      renamed by `commit`
    <base>.swap              the manifest, written last by `commit`: from now on the old ones are
                             gone, whatever happens; before it, nothing has happened
    <base>.log ...           renamed by `install`, in the same turn of the loop as the log's replace
    others' files removed, and what was known of those bytes, then the manifest, by `finish`

A start completes what has a manifest and removes what has none (`finish_swaps`). Producers'
snapshots of the segments that go stay: recovery begins at one of them.
"""

import logging
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker.storage import checkpoint
from broker.storage.segment_files import (
    ABORTED,
    CLEANED,
    DAMAGE,
    SEGMENT_SUFFIXES,
    SWAP,
    file_name,
    is_offset_file,
)

_log = logging.getLogger(__name__)


class Swap(NamedTuple):
    """Neighbouring segments of a log that become one."""

    folder: Path
    old: list[int]  # base offsets, rising
    new: int | None  # the first of them, or None when no record is left

    @property
    def gone(self) -> list[int]:
        """The segments whose files are removed."""
        return [base for base in self.old if base != self.new]

    @property
    def manifest(self) -> Path:
        """The file that says that this has happened."""
        return self.folder / file_name(self.old[0], SWAP)


def commit(swap: Swap) -> None:
    """Make the swap durable, in a thread that may wait for the disk.

    Raises StorageError or FileNotFoundError before anything has changed; who gives up then calls
    `drop_cleaned`.
    """
    if swap.new is not None:
        for file in _files(swap):
            with _may_be_missing(file):
                file_ops.rename(f"{file}{CLEANED}", f"{file}{SWAP}")
        file_ops.sync_folder(swap.folder)
    checkpoint.write_swap(swap.manifest, swap.new, swap.gone)


def undo(swap: Swap) -> None:
    """Take back what `commit` has done, as long as nothing is installed."""
    file_ops.remove(swap.manifest)
    file_ops.sync_folder(swap.folder)
    drop_cleaned(swap.folder)


def install(swap: Swap) -> None:
    """Give the new files their names: on the loop, right before the log is told to use them."""
    for file in _files(swap):
        with _may_be_missing(file):
            file_ops.rename(f"{file}{SWAP}", file)


def finish(swap: Swap) -> None:
    """Remove what the swap has replaced, in a thread that may wait for the disk."""
    file_ops.sync_folder(swap.folder)
    for base in swap.gone:
        for suffix in SEGMENT_SUFFIXES:
            _remove(swap.folder / file_name(base, suffix))
    _remove(swap.folder / file_name(swap.old[0], DAMAGE))
    file_ops.sync_folder(swap.folder)
    file_ops.remove(swap.manifest)
    file_ops.sync_folder(swap.folder)


def drop_cleaned(folder: Path) -> None:
    """Remove what a compaction that did not come to its end has written."""
    names = file_ops.list_folder(folder)
    committed = {name for name in names if is_offset_file(name, SWAP)}
    for name in names:
        is_uncommitted = name.endswith(SWAP) and _manifest_of(name) not in committed
        if name.endswith(CLEANED) or is_uncommitted:
            _remove(folder / name)


def finish_swaps(folder: Path) -> None:
    """Bring a folder to what its manifests say, before its log is opened; idempotent.

    Raises StorageError: the log must not be opened then, its segments may overlap.
    """
    drop_cleaned(folder)
    names = file_ops.list_folder(folder)
    for name in (each for each in names if is_offset_file(each, SWAP)):
        kept, gone = checkpoint.read_swap(folder / name)
        for file in (folder / other for other in names):
            if file.name.endswith(SWAP) and file.name != name and _manifest_of(file.name) == name:
                file_ops.rename(file, file.with_suffix(""))
        old = sorted([*gone] if kept is None else [kept, *gone])
        _log.info("compaction completed: folder=%s kept=%s gone=%s", folder.name, kept, gone)
        finish(Swap(folder, old, kept))


def _files(swap: Swap) -> list[Path]:
    """The files of the new segment under their final names."""
    if swap.new is None:
        return []
    return [swap.folder / file_name(swap.new, suffix) for suffix in SEGMENT_SUFFIXES]


def _may_be_missing(file: Path) -> AbstractContextManager[None]:
    """Only a segment made from one with aborted transactions has a file of them, none of damage.

    The digest must be there: the one that it replaces is of other bytes.
    """
    return suppress(FileNotFoundError) if file.suffix in {ABORTED, DAMAGE} else nullcontext()


def _manifest_of(name: str) -> str:
    """The manifest that a .swap file belongs to."""
    return name.partition(".")[0] + SWAP


def _remove(file: Path) -> None:
    with suppress(FileNotFoundError):
        file_ops.remove(file)
