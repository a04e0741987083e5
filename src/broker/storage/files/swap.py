"""Replaces segments by the compacted one made from them, atomically also across a crash.

    <base>.log.cleaned ...   written and synced by the compactor; not part of the log yet
    <base>.log.swap ...      renamed by `commit`
    <base>.swap              the manifest, written last by `commit`: it decides that the old
                             segments are replaced; before it, nothing has changed
    <base>.log ...           renamed by `install`, in the same turn of the loop as the log's replace
    removal                  of the old files and their known damage, then of the manifest, by
                             `finish`

A start completes a swap that has a manifest and removes the files of one without (`finish_swaps`).
Producers' snapshots of the replaced segments stay: recovery begins at one of them.
"""

import logging
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker.segments import text_files
from broker.segments.names import (
    ABORTED,
    CLEANED,
    DAMAGE,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    file_name,
    is_offset_file,
)
from broker.storage.checkpoints import checkpoint

_log = logging.getLogger(__name__)


class Swap(NamedTuple):
    """Adjacent segments of a log that become one."""

    folder: Path
    old: list[int]  # base offsets, ascending
    new: int | None  # the first of them, or None when no record is left

    @property
    def gone(self) -> list[int]:
        """The segments whose files are removed."""
        return [base for base in self.old if base != self.new]

    @property
    def manifest(self) -> Path:
        """The file whose existence commits the swap."""
        return self.folder / file_name(self.old[0], SWAP)


def commit(swap: Swap) -> None:
    """Make the swap durable, in a thread that may wait for the disk.

    Raises StorageError or FileNotFoundError before anything has changed; the caller then calls
    `drop_cleaned` unless it retries.
    """
    if swap.new is not None:
        for file in _files(swap):
            with _may_be_missing(file):
                file_ops.rename(f"{file}{CLEANED}", f"{file}{SWAP}")
        file_ops.sync_folder(swap.folder)
    checkpoint.write_swap(swap.manifest, swap.new, swap.gone)


def undo(swap: Swap) -> None:
    """Undo `commit`, as long as nothing is installed."""
    file_ops.remove(swap.manifest)
    file_ops.sync_folder(swap.folder)
    drop_cleaned(swap.folder)


def install(swap: Swap) -> None:
    """Rename the new files to their final names; on the loop, right before the log's replace."""
    for file in _files(swap):
        with _may_be_missing(file):
            file_ops.rename(f"{file}{SWAP}", file)


def finish(swap: Swap) -> None:
    """Remove the replaced files, in a thread that may wait for the disk."""
    file_ops.sync_folder(swap.folder)
    for base in swap.gone:
        for suffix in SEGMENT_SUFFIXES:
            _remove(swap.folder / file_name(base, suffix))
    _remove(swap.folder / file_name(swap.old[0], DAMAGE))
    file_ops.sync_folder(swap.folder)
    file_ops.remove(swap.manifest)
    file_ops.sync_folder(swap.folder)


def drop_cleaned(folder: Path) -> None:
    """Remove the files of a compaction that did not complete."""
    names = file_ops.list_folder(folder)
    committed = {name for name in names if is_offset_file(name, SWAP)}
    for name in names:
        is_uncommitted = name.endswith(SWAP) and _manifest_of(name) not in committed
        if name.endswith(CLEANED) or is_uncommitted:
            _remove(folder / name)


def finish_swaps(folder: Path) -> None:
    """Complete the swaps of a folder that have manifests, before its log is opened; idempotent.

    Raises StorageError: the log must then not be opened, because its segments may overlap.
    """
    drop_cleaned(folder)
    names = file_ops.list_folder(folder)
    for name in (each for each in names if is_offset_file(each, SWAP)):
        kept, gone = text_files.read_swap(folder / name)
        for file in (folder / other for other in names):
            if file.name.endswith(SWAP) and file.name != name and _manifest_of(file.name) == name:
                file_ops.rename(file, file.with_suffix(""))
        old = sorted([*gone] if kept is None else [kept, *gone])
        _log.info("compaction completed: folder=%s kept=%s gone=%s", folder.name, kept, gone)
        finish(Swap(folder, old, kept))


def resolve(folder: Path, base_offsets: Collection[int]) -> None:
    """Complete or undo the swaps of an open log whose compaction was ended between two steps.

    `base_offsets` are those of its segments: they tell whether it uses the new files.
    """
    drop_cleaned(folder)
    names = file_ops.list_folder(folder)
    for name in (each for each in names if is_offset_file(each, SWAP)):
        kept, gone = text_files.read_swap(folder / name)
        swap = Swap(folder, sorted([*gone] if kept is None else [kept, *gone]), kept)
        is_pending = kept is not None and file_name(kept, LOG) + SWAP in names
        if is_pending or not set(base_offsets).isdisjoint(gone):
            undo(swap)
        else:
            finish(swap)


def _files(swap: Swap) -> list[Path]:
    """Return the final names of the new segment's files."""
    if swap.new is None:
        return []
    return [swap.folder / file_name(swap.new, suffix) for suffix in SEGMENT_SUFFIXES]


def _may_be_missing(file: Path) -> AbstractContextManager[None]:
    """Allow .txnindex and .damage to be missing: not every compacted segment has the first.

    The digest must exist: the one that it replaces belongs to other bytes.
    """
    return suppress(FileNotFoundError) if file.suffix in {ABORTED, DAMAGE} else nullcontext()


def _manifest_of(name: str) -> str:
    """Return the name of the manifest that a .swap file belongs to."""
    return name.partition(".")[0] + SWAP


def _remove(file: Path) -> None:
    with suppress(FileNotFoundError):
        file_ops.remove(file)
