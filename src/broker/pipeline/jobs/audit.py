"""`broker pipeline audit`: checks every byte of the segments of a folder; a row for each segment.

The folder is a snapshot or a data directory (see segments/planning.py). Segments are checked in
threads on all cores, or by Spark if a session is given. Offsets and sequences that continue from
one segment to the next are checked afterwards.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.pipeline.jobs.rows import AuditedSegment
from broker.pipeline.segments.integrity import SegmentFacts, SegmentIntegrity, audit_segment
from broker.pipeline.segments.planning import StoredPartition, opened, stored_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIELDS: Final = SegmentIntegrity._fields
_COUNTS: Final = _FIELDS[_FIELDS.index("crc_errors") : _FIELDS.index("producers")]
# Texts of faults, and of those that are faults only in logs that were not compacted.
_FAULTS: Final = {
    "crc_errors": "batches with a wrong CRC",
    "damaged_batches": "batches with wrong counts",
    "disorders": "batches with offsets below those before them",
    "sequence_repeats": "batches with a repeated producer sequence",
    "index_errors": "wrong index entries",
    "unreadable_bytes": "bytes that belong to no batch",
}
_FAULTS_WITHOUT_GAPS: Final = {
    "missing_offsets": "missing offsets",
    "sequence_gaps": "gaps in a producer's sequence",
}
_PROGRESS_INTERVAL: Final = 20  # segments


def audit(
    folder: Path,
    *,
    topics: Sequence[str] = (),
    spark: "SparkSession | None" = None,
    workers: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Check every segment of a folder.

    Args:
        folder: a snapshot, a data directory or a partition's folder.
        topics: by name; empty: all but the internal ones.
        spark: checks the segments in tasks; it must have access to the same folder.
        workers: the number of threads without Spark; by default as many as cores.
        progress: called with lines about the progress.
        clock: measures the duration.

    Raises:
        ConfigError: no such folder, no segment of these topics, or fewer than one worker.
        Corrupt: the manifest of a snapshot is damaged.
        SegmentGone: retention or compaction removed a segment before it was checked.
    """
    if workers is not None and workers < 1:
        raise ConfigError(f"{workers} workers, expected 1 or more")
    clock = clock or SystemClock()
    wanted = frozenset(topics)
    is_wanted: Callable[[str], bool] = (
        wanted.__contains__ if wanted else lambda topic: not topic.startswith("__")
    )
    stored = stored_partitions(folder, is_wanted)
    missing = wanted - {each.topic for each in stored}
    if missing:
        raise ConfigError(f"{folder}: no closed segment of {', '.join(sorted(missing))}")
    facts = [each for partition in stored for each in _facts(partition)]
    started_ms = clock.monotonic_ms()
    if spark is None:
        found = list(_in_threads(facts, workers or len(os.sched_getaffinity(0)), progress))
    else:
        progress(f"{len(facts)} segments are checked by Spark")
        tasks = spark.sparkContext.parallelize(facts, max(len(facts), 1))
        found = tasks.map(audit_segment).collect()
    seconds = max(clock.monotonic_ms() - started_ms, 1) / 1000
    return _report(found, seconds)


def _facts(stored: StoredPartition) -> Iterator[SegmentFacts]:
    """Yield what is known about each segment of a partition before it is read."""
    ends = dict(stored.ends or ())
    has_gaps = not ends or any(one[1] != two[0] for one, two in pairwise(stored.ends or ()))
    with opened(stored.folder) as log:
        for base in log.base_offsets:
            if base < stored.end_offset:
                file = str(stored.folder / f"{base:020}.log")
                yield SegmentFacts(
                    stored.topic,
                    stored.partition,
                    file,
                    stored.end_positions.get(base),
                    ends.get(base),
                    has_gaps,
                )


def _in_threads(
    facts: Sequence[SegmentFacts], workers: int, progress: Callable[[str], None]
) -> Iterator[SegmentIntegrity]:
    with ThreadPoolExecutor(workers) as pool:
        for number, found in enumerate(pool.map(audit_segment, facts), 1):
            if number % _PROGRESS_INTERVAL == 0 or number == len(facts):
                progress(f"{number} of {len(facts)} segments")
            yield found


def _report(found: Sequence[SegmentIntegrity], seconds: float) -> Report:
    segments = list(_with_faults_between(found))
    records, size = sum(each.records for each in segments), sum(each.size for each in segments)
    totals = {
        "segments": len(segments),
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds),
        "faulty_segments": sum(any(_faults(each)) for each in segments),
    }
    rows = [tuple(_cell(each, name) for name in AuditedSegment._fields) for each in segments]
    faults = [fault for each in segments for fault in _faults(each)]
    return Report(AuditedSegment._fields, rows, totals, faults, frozenset(_COUNTS))


def _cell(found: SegmentIntegrity, name: str) -> object:
    if name in {"topic", "partition"}:
        return getattr(found.facts, name)
    if name == "oldest":
        return _time(found.min_timestamp)
    return _time(found.max_timestamp) if name == "newest" else getattr(found, name)


def _time(timestamp_ms: int) -> str | None:
    """Return a timestamp as text; in ms if it is outside of the calendar."""
    if timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _faults(found: SegmentIntegrity) -> Iterator[str]:
    """Yield texts about the faults of a segment."""
    faults_by_name = _FAULTS if found.facts.has_gaps else _FAULTS | _FAULTS_WITHOUT_GAPS
    for name, what in faults_by_name.items():
        count = getattr(found, name)
        if count:
            yield f"{found.facts.file}: {count:,} {what}"


def _with_faults_between(found: Iterable[SegmentIntegrity]) -> Iterator[SegmentIntegrity]:
    """Add the faults between each segment and the one before it."""
    key: tuple[str, int] | None = None
    producers: dict[int, tuple[int, int, int]] = {}
    next_offset = -1
    for each in found:
        if key != (each.facts.topic, each.facts.partition):
            key, producers, next_offset = (each.facts.topic, each.facts.partition), {}, -1
        gaps, repeats = _sequence_faults(producers, each.producers)
        end = each.facts.end_offset
        begin = each.base_offset if next_offset < 0 else max(next_offset, each.base_offset)
        reached = max(each.next_offset, each.base_offset)
        missing = 0
        if not each.facts.has_gaps and end is not None:
            missing = max(end - reached, 0)
            if each.batches and next_offset >= 0:
                missing += max(each.first_offset - begin, 0)
        is_back = bool(each.batches) and each.first_offset < begin
        yield each._replace(
            missing_offsets=each.missing_offsets + missing,
            disorders=each.disorders + is_back,
            sequence_gaps=each.sequence_gaps + gaps,
            sequence_repeats=each.sequence_repeats + repeats,
        )
        producers |= each.producers
        next_offset = max(next_offset, each.next_offset)


def _sequence_faults(
    before: dict[int, tuple[int, int, int]], after: dict[int, tuple[int, int, int]]
) -> tuple[int, int]:
    """Count the gaps and repeats of sequences that continue in the next segment."""
    gaps = repeats = 0
    for producer, (epoch, first, _) in after.items():
        known = before.get(producer)
        if known is not None and known[0] == epoch:
            ahead = (first - known[2]) % (1 << 31)
            gaps += 0 < ahead < 1 << 30
            repeats += ahead >= 1 << 30
    return gaps, repeats
