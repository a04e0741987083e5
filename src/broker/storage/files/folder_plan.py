"""Plans what a start does with the files of a partition's folder, given their names.

<offset>.log .index .timeindex .txnindex    a segment
<offset>.digest .damage                     of a closed segment; the last may be written to again
<offset>.snapshot                           the producers at that offset
*.deleted       removed from the log, to be deleted after file.delete.delay.ms
*.cleaned       of a compaction that did not complete
*.swap          of one that did: `storage.swap` completes it before this plan is made
*.tmp           a small file that was not renamed
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from broker.segments.names import (
    ABORTED,
    CLEANED,
    DAMAGE,
    DELETED,
    DIGEST,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    file_name,
    offsets_of,
)

_LEFT_OVER_SUFFIXES = (DELETED, CLEANED, ".tmp")


class FolderPlan(NamedTuple):
    """What a start does with the files of a partition's folder."""

    base_offsets: list[int]  # of the segments of the log, ascending
    snapshot_offsets: list[int]  # of those at or after the log's first segment, ascending
    damaged_offsets: list[int]  # of closed segments with known damage
    aborted_offsets: list[int]  # of closed segments with aborted transactions and a digest
    removed: list[str]  # names, before the log is opened


def plan_folder(names: Iterable[str], log_start_offset: int) -> FolderPlan:
    """Make the plan; segments wholly below the log start offset are not part of the log."""
    names = list(names)
    removed = [name for name in names if name.endswith(_LEFT_OVER_SUFFIXES)]
    base_offsets = offsets_of(names, LOG)
    gone = {base for base, end in pairwise(base_offsets) if end <= log_start_offset}
    if gone:
        files = {file_name(base, suffix) for base in gone for suffix in SEGMENT_SUFFIXES}
        removed += [name for name in names if name in files]
    kept = [base for base in base_offsets if base not in gone]
    removed += [
        file_name(base, suffix)
        for suffix in (DIGEST, DAMAGE)
        for base in offsets_of(names, suffix)
        if base not in kept[:-1] and base not in gone
    ]
    closed, digested = set(kept[:-1]), set(offsets_of(names, DIGEST))
    damaged = [base for base in offsets_of(names, DAMAGE) if base in closed]
    aborted = [base for base in offsets_of(names, ABORTED) if base in closed & digested]
    snapshots = [each for each in offsets_of(names, SNAPSHOT) if kept and each >= kept[0]]
    return FolderPlan(kept, snapshots, damaged, aborted, removed)
