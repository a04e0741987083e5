"""Which offsets a read covers and in which tasks: arithmetic only.

The ways in which tasks are cut and a trigger's limit is shared are those of Spark's Kafka source;
that small ranges of a trigger share a task is our own.
"""

import math
from collections.abc import Iterable, Mapping

from broker.client.fetch import Range
from broker.model.limits import PIPELINE_SHARED_TASK_OFFSETS

Partition = tuple[str, int]
Task = tuple[Range, ...]


def split(
    ranges: Iterable[Range], min_partitions: int | None, records_max: int | None
) -> list[Range]:
    """Cut ranges of offsets into tasks; empty ones fall away.

    Args:
        ranges: one per partition.
        min_partitions: how many tasks there are to be, by rounding a few more or less; large
            ranges are cut first. None: a task per range.
        records_max: no task has more offsets. None: any number.
    """
    pieces = [each for each in ranges if each.end > each.start]
    if records_max:
        pieces = [part for each in pieces for part in _cut(each, -(-_size(each) // records_max))]
    if min_partitions and len(pieces) < min_partitions:
        total = sum(map(_size, pieces))
        pieces = [
            part
            for each in pieces
            for part in _cut(each, max(1, round(_size(each) / total * min_partitions)))
        ]
    return pieces


def shared(pieces: Iterable[Range], records_max: int | None) -> list[Task]:
    """Put ranges together that are small: a task of Python's takes as long as thousands of records.

    Args:
        pieces: as `split` returns them; their order stays.
        records_max: as for `split`.
    """
    offsets_max = min(records_max or math.inf, PIPELINE_SHARED_TASK_OFFSETS)
    tasks: list[Task] = []
    size = 0
    for each in pieces:
        size += _size(each)
        if tasks and size <= offsets_max:
            tasks[-1] += (each,)
        else:
            tasks.append((each,))
            size = _size(each)
    return tasks


def _size(part: Range) -> int:
    return part.end - part.start


def _cut(part: Range, count: int) -> Iterable[Range]:
    count = min(count, _size(part))
    start = part.start
    for left in range(count, 0, -1):
        end = start + (part.end - start) // left
        yield part._replace(start=start, end=end)
        start = end


def limited(
    begins: Mapping[Partition, int], ends: Mapping[Partition, int], limit: float
) -> dict[Partition, int]:
    """Return where a trigger ends that may read so many offsets, in all.

    Every partition gets of the limit what it has of all that is waiting, and one at least: so no
    partition starves behind a large one.

    Args:
        begins: the next offset to read.
        ends: what there is to read up to, of the same partitions.
        limit: how many offsets; the result may be over it by one per partition.
    """
    waiting = {each: max(ends[each] - begins[each], 0) for each in ends}
    total = sum(waiting.values())
    if total <= limit:
        return {each: max(ends[each], begins[each]) for each in ends}
    shares = {each: limit * (size / total) for each, size in waiting.items()}
    return {
        each: min(begins[each] + _whole(shares[each]), max(ends[each], begins[each]))
        for each in ends
    }


def _whole(share: float) -> int:
    return math.ceil(share) if share < 1 else math.floor(share)


def limited_by_bytes(
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    bytes_per_offset: Mapping[Partition, float],
    limit: int,
) -> dict[Partition, int]:
    """Return where a trigger ends that may read so many bytes, about: as `limited`, by size.

    Args:
        begins: the next offset to read.
        ends: what there is to read up to, of the same partitions.
        bytes_per_offset: what the next records of each take in the log, measured.
        limit: in bytes of batches as they are stored.
    """
    waiting = {each: max(ends[each] - begins[each], 0) for each in ends}
    total = sum(size * bytes_per_offset[each] for each, size in waiting.items())
    if total <= limit:
        return {each: max(ends[each], begins[each]) for each in ends}
    return {
        each: begins[each] + min(size, _whole(size * limit / total))
        for each, size in waiting.items()
    }


def inverted(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], which: Iterable[Partition]
) -> list[str]:
    """Say which of some ranges end before they begin."""
    return [
        f"{topic}-{partition}: starts at offset {starts[topic, partition]} and ends at offset"
        f" {ends[topic, partition]}"
        for topic, partition in sorted(which)
        if ends[topic, partition] < starts[topic, partition]
    ]


def losses(
    begins: Mapping[Partition, int],
    earliest: Mapping[Partition, int],
    latest: Mapping[Partition, int],
) -> list[str]:
    """Say which partitions do not hold what is to be read first, and what they hold instead."""
    return [
        f"{topic}-{partition}: expected offset {begin}, there are"
        f" {earliest[topic, partition]} to {latest[topic, partition]}"
        f"{_cause(begin, earliest[topic, partition])}"
        for (topic, partition), begin in sorted(begins.items())
        if not earliest[topic, partition] <= begin <= latest[topic, partition]
    ]


def _cause(begin: int, earliest: int) -> str:
    """What has happened to an offset that a log does not hold."""
    return ": retention or DeleteRecords removed those before" if begin < earliest else ""
