"""Divides the offsets of a read into tasks and triggers, without I/O.

Ranges are divided, and the limit of a trigger is distributed, as in Spark's Kafka source. In
addition small ranges of a trigger share a task.
"""

import math
from collections.abc import Iterable, Mapping

from broker.client.fetch import Range
from broker.client.metadata import Partition
from broker.model.limits import PIPELINE_SHARED_TASK_OFFSETS

Task = tuple[Range, ...]


def split(
    ranges: Iterable[Range], min_partitions: int | None, records_max: int | None
) -> list[Range]:
    """Divide ranges of offsets into tasks; empty ranges are dropped.

    Args:
        ranges: one per partition.
        min_partitions: the number of tasks, give or take a few by rounding; ranges are divided in
            proportion to their size. None: a task per range.
        records_max: the offsets of a task, at most. None: no limit.
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
    """Combine small ranges: starting a Python task takes as long as thousands of records.

    Args:
        pieces: the result of `split`; the order is kept.
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
    """Return the end offsets of a trigger with a limit of offsets in total.

    The limit is distributed in proportion to the unread offsets of the partitions; each gets at
    least one, so that none starves beside a large one.

    Args:
        begins: the next offset to read.
        ends: the available end offsets, of the same partitions.
        limit: the number of offsets; the result may exceed it by one per partition.
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
    """Return the end offsets of a trigger with an approximate limit of bytes; as `limited`.

    Args:
        begins: the next offset to read.
        ends: the available end offsets, of the same partitions.
        bytes_per_offset: the measured size of the next records of each partition in the log.
        limit: in bytes of batches as stored.
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
    """Return texts about the ranges that end before they start."""
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
    """Return texts about the partitions that do not have the first offset to be read."""
    return [
        f"{topic}-{partition}: expected offset {begin}, there are"
        f" {earliest[topic, partition]} to {latest[topic, partition]}"
        f"{_cause(begin, earliest[topic, partition])}"
        for (topic, partition), begin in sorted(begins.items())
        if not earliest[topic, partition] <= begin <= latest[topic, partition]
    ]


def _cause(begin: int, earliest: int) -> str:
    """Return the likely cause of a missing offset."""
    return ": retention or DeleteRecords removed those before" if begin < earliest else ""
