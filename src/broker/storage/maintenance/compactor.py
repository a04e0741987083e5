"""The process that compacts one log: it reads sealed segments and writes only `.cleaned` files.

Started by core/maintenance/cleaner.py as `python -m broker.storage.maintenance.compactor`, never
forked, so that it has neither the broker's lock nor its memory. It reads a job as one line of JSON
from stdin and reports by lines of JSON on stdout:

    {"kind": "progress"}                                         it has read a piece
    {"kind": "cleaned", "old": [0, 95], "new": 0, "size": 4711}  these segments may become that one;
                                                                 "new" null: no record is left
    {"kind": "done", "end_offset": 180, ...}                     the log is clean up to there
    {"kind": "failed", "is_damaged": true, "reason": "..."}      the log cannot be compacted

It dies with its parent: by a signal of the kernel, and when stdin ends. Groups are in offset order
and are swapped in that order, so that a tombstone is never removed before the records it deletes.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.cleaned_segment import CleanedSegment
from broker._native.log.transaction_index import select_entries
from broker._native.records.compaction import KeyCollector, RecordFilter
from broker._native.records.key_map import PLACE_BYTES, KeyMap
from broker.codec import compression
from broker.model import limits
from broker.model.errors import CodecError, Corrupt, StorageError
from broker.segments.digests import Digest, read_digest
from broker.segments.integrity import Examination
from broker.segments.names import ABORTED, CLEANED, LOG, file_name
from broker.storage.files import digests

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_EXIT_ORPHANED = 1
_PLACES_MIN = 4

Report = Callable[[dict[str, Any]], None]


class Job(NamedTuple):
    """One compaction pass, sent as JSON."""

    folder: str
    groups: list[list[tuple[int, int]]]  # (base offset, bytes) of segments that become one
    first_dirty_offset: int
    end_offset: int
    map_bytes: int
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    decompressed_bytes_max: int  # of one batch
    producer_ends: list[tuple[int, int, int]]  # (id, epoch, last offset) of live producers
    aborted: list[tuple[int, int, int]]  # (producer id, first offset, marker's offset)
    parent_pid: int

    @property
    def keys_bytes(self) -> int:
        """Memory for the map: as allowed, and at most one slot per dirty byte."""
        return min(self.map_bytes, (self.dirty_bytes + _PLACES_MIN) * PLACE_BYTES)

    @property
    def dirty_bytes(self) -> int:
        """Bytes of the segments that may have dirty records, as stored."""
        segments = [segment for group in self.groups for segment in group]
        ends = [base for base, _ in segments[1:]] + [self.end_offset]
        return sum(
            size
            for (_, size), end in zip(segments, ends, strict=True)
            if end > self.first_dirty_offset
        )


class _Counts(NamedTuple):
    """The result of a pass."""

    end_offset: int  # clean up to here; the next pass begins there
    records_read: int
    records_kept: int


def compact(job: Job, report: Report) -> None:
    """Do one pass; `report` is called with the messages above, except for a failure.

    Raises CodecError for a damaged segment, StorageError or OSError when the disk fails.
    """
    common: dict[str, Any] = {
        "decompress": compression.decompress_into,
        "decompressed_bytes_max": job.decompressed_bytes_max,
        "aborted": job.aborted,
    }
    _check_sources(job, report)
    key_map = KeyMap(job.keys_bytes)
    _collect(job, key_map, common, report)
    record_filter = RecordFilter(
        key_map,
        compress=compression.compress,
        now_ms=job.now_ms,
        delete_retention_ms=job.delete_retention_ms,
        producer_ends=job.producer_ends,
        **common,
    )
    for group in job.groups:
        if group[0][0] >= key_map.end_offset:
            break
        _clean(job, group, record_filter, report)
    done = _Counts(key_map.end_offset, record_filter.records_read, record_filter.records_kept)
    report({"kind": "done", **done._asdict()})


def _collect(job: Job, key_map: KeyMap, common: dict[str, Any], report: Report) -> None:
    """Fill the map; the pass ends where it is full."""
    collector = KeyCollector(
        key_map, first_offset=job.first_dirty_offset, end_offset=job.end_offset, **common
    )

    def take(piece: bytes) -> int | None:
        end = collector.add(piece)
        return None if collector.is_done else end

    for base, size in (segment for group in job.groups for segment in group):
        if collector.is_done:
            return
        _read_segment(job.folder, base, size, take, report)
    if not collector.is_done:
        key_map.end_offset = job.end_offset


def _clean(
    job: Job, group: list[tuple[int, int]], record_filter: RecordFilter, report: Report
) -> None:
    """Rewrite one group of segments; leave no files for a single segment that is unchanged."""
    changed_before = record_filter.batches_changed
    target = CleanedSegment(job.folder, group[0][0], job.index_interval_bytes)

    def take(piece: bytes) -> int:
        batches, end = record_filter.filter(piece)
        target.append(batches)
        return end

    for base, size in group:
        _read_segment(job.folder, base, size, take, report)
    if len(group) == 1 and record_filter.batches_changed == changed_before:
        target.discard()
        record_filter.take_aborted()  # its file has them already
        return
    aborted = record_filter.take_aborted()
    if target.size == 0:
        target.discard()
    else:
        target.finish()
        _write_aborted(Path(job.folder), [base for base, _ in group], aborted)
        _write_digest(Path(job.folder), target.base_offset, job.now_ms, report)
    new = target.base_offset if target.size else None
    old = [base for base, _ in group]
    report({"kind": "cleaned", "old": old, "new": new, "size": target.size})


def _check_sources(job: Job, report: Report) -> None:
    """Check the sources that have digests: a rewrite of damaged segments would hide the damage.

    Raises Corrupt.
    """
    folder = Path(job.folder)
    for base, _ in (segment for group in job.groups for segment in group):
        if read_digest(folder, base) is None:
            continue
        examination = Examination(folder, base, -1)
        _run(examination, report)
        found = examination.verdict()
        if found.damages:
            damage = found.damages[0]
            raise Corrupt(f"{file_name(base, LOG)}: {damage.reason}", damage.position)
        if found.has_other_aborted:
            raise Corrupt(f"{file_name(base, ABORTED)}: not the bytes of its digest")


def _write_digest(folder: Path, base: int, now_ms: int, report: Report) -> None:
    """Check the segment that was written, and write its digest."""
    examination = Examination(folder, base, -1, has_digest=False, suffix=CLEANED)
    _run(examination, report)
    found = examination.verdict()
    if found.damages:
        raise StorageError(f"{file_name(base, LOG)}: written, but {found.damages[0].reason}")
    digest = Digest(found.xxh3, found.size, now_ms, found.aborted_xxh3)
    digests.write_cleaned(folder, base, digest)


def _run(examination: Examination, report: Report) -> None:
    try:
        while examination.step(limits.COMPACTION_READ_BYTES):
            report({"kind": "progress"})
    finally:
        examination.close()


def _write_aborted(folder: Path, bases: list[int], aborted: list[tuple[int, int, int]]) -> None:
    """Write the aborted transactions that readers still need, if the sources have any."""
    files = [folder / file_name(base, ABORTED) for base in bases]
    entries = [file_ops.read_file(file) for file in files if file.exists()]
    if entries:
        kept = b"".join(select_entries(each, frozenset(aborted)) for each in entries)
        file_ops.write_file_atomic(folder / file_name(bases[0], ABORTED + CLEANED), kept)


def _read_segment(
    folder: str, base: int, size: int, take: Callable[[bytes], int | None], report: Report
) -> None:
    """Pass a segment to `take` in pieces.

    `take` returns where the last whole batch of a piece ends, or None to stop.
    """
    path = Path(folder) / file_name(base, LOG)
    position, piece_bytes = 0, limits.COMPACTION_READ_BYTES
    while position < size:
        piece = file_ops.read_range(path, position, min(piece_bytes, size - position))
        try:
            taken = take(piece)
        except CodecError as error:
            raise type(error)(f"{path.name} from {position} on: {error}") from None
        if taken is None:
            return
        position += taken
        report({"kind": "progress"})
        if taken:
            piece_bytes = limits.COMPACTION_READ_BYTES
        elif len(piece) < piece_bytes or piece_bytes > limits.BATCH_BYTES_MAX:
            raise Corrupt(f"{path.name}: a batch cut short", position)
        else:
            piece_bytes *= 2  # a batch is larger than a piece


# ---- the process ---------------------------------------------------------------------------------


def main() -> None:
    """Read a job and do it; end when the parent does."""
    import ctypes  # noqa: PLC0415 - a broker, which only makes jobs, does not need it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(limits.COMPACTION_NICE)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # the parent died before it had written the job
        os._exit(_EXIT_ORPHANED)
    job = Job(**json.loads(line))
    if os.getppid() != job.parent_pid:  # or before the prctl
        os._exit(_EXIT_ORPHANED)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        compact(job, _print)
    except CodecError as error:
        _print({"kind": "failed", "is_damaged": True, "reason": str(error)})
    except (StorageError, OSError, MemoryError) as error:
        _print({"kind": "failed", "is_damaged": False, "reason": str(error) or repr(error)})


def _die_with_parent() -> None:
    # Not sys.stdin.read: the exit of the process would wait for its lock.
    os.read(sys.stdin.fileno(), 1)
    os._exit(_EXIT_ORPHANED)


def _print(message: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the parent was killed, and the signal has not arrived yet
        os._exit(_EXIT_ORPHANED)


if __name__ == "__main__":
    main()
