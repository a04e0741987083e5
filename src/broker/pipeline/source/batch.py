"""A batch read: its ranges of offsets, their division into tasks, and the reading of a task."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from broker.client.fetch import Range
from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import list_offsets
from broker.model.errors import ConfigError
from broker.pipeline.decoding import Selection
from broker.pipeline.source.bounds import Bounds
from broker.pipeline.source.planning import inverted, losses, split
from broker.pipeline.source.settings import Settings
from broker.pipeline.source.task import read_task
from broker.pipeline.source.topics import (
    find_topics,
    log_bounds,
    partitions_of,
    report_loss,
    resolve,
)
from broker.pipeline.worker import begin_task

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads topics between two bounds."""

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        """Create a reader; nothing is connected yet."""
        self._settings = settings
        self._columns = columns
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the broker for topics and offsets, and return the tasks.

        Raises:
            ConfigError, RequestError, Unreachable: topics, partitions or offsets do not exist, or
                there is no broker.
        """
        settings = self._settings
        cluster = settings.cluster()
        topics = find_topics(cluster, settings)
        if self._bounds.topics is not None:
            topics = {name: each for name, each in topics.items() if name in self._bounds.topics}
        ranges = self._ranges(cluster, topics)
        pieces = split(ranges, settings.min_partitions, settings.records_per_task_max)
        return [InputPartition((each,)) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the records of one task."""
        if partition.value is None:
            return  # Spark plans an empty partition if there is no task
        if self._settings.tunes_worker:
            begin_task()
        bounds = self._bounds
        selection = Selection(
            self._columns,
            bounds.min_timestamp,
            bounds.max_timestamp,
            self._settings.key_prefix if bounds.keys is None else tuple(sorted(bounds.keys)),
        )
        yield from read_task(self._settings, partition.value, selection)

    def _ranges(self, cluster: Cluster, topics: dict[str, Topic]) -> list[Range]:
        settings = self._settings
        partitions = partitions_of(topics)
        if not partitions:
            return []
        starts = resolve(cluster, settings, settings.starting, partitions, is_start=True)
        ends = resolve(cluster, settings, settings.ending, partitions, is_start=False)
        self._check(cluster, starts, ends)
        self._narrow(cluster, starts, ends)
        allowed = self._bounds.partitions
        return [
            Range(topic, topics[topic].topic_id, each, starts[topic, each], ends[topic, each])
            for topic, each in partitions
            if allowed is None or each in allowed
        ]

    def _check(
        self, cluster: Cluster, starts: dict[Partition, int], ends: dict[Partition, int]
    ) -> None:
        """Report offsets that do not exist, and limit the ranges to existing ones."""
        settings = self._settings
        earliest, latest = log_bounds(cluster, settings, starts)
        by_offset = settings.starting.offsets or {}
        named = {each: offset for each, offset in by_offset.items() if offset >= 0}
        self._check_order(starts, ends, earliest, latest)
        lost = losses(named, earliest, latest)
        if settings.ending.offsets:
            ahead = {each: end for each, end in ends.items() if end > latest[each]}
            before_start = {
                each: end for each, end in ends.items() if end < starts[each] <= earliest[each]
            }
            lost += losses(ahead | before_start, earliest, latest)
        report_loss(settings, lost)
        for each, start in earliest.items():
            starts[each] = max(starts[each], start)
            ends[each] = min(ends[each], latest[each])

    def _check_order(
        self,
        starts: dict[Partition, int],
        ends: dict[Partition, int],
        earliest: dict[Partition, int],
        latest: dict[Partition, int],
    ) -> None:
        """Raise an error for ranges that end before they start according to the options.

        A range may also be inverted by the state of the topic: retention has moved its start past
        its end, or its start timestamp is after the last stable offset, which is its end. Such a
        range is empty.
        """
        begin, end = self._settings.starting.offsets or {}, self._settings.ending.offsets or {}
        by_topic = {
            each
            for each in starts
            if not (begin.get(each, -1) >= 0 and end.get(each, -1) >= 0)
            and (starts[each] <= earliest[each] or ends[each] >= latest[each])
        }
        wrong = inverted(starts, ends, starts.keys() - by_topic)
        if wrong:
            raise ConfigError(f"a read cannot end before it starts: {'; '.join(wrong)}")

    def _narrow(
        self, cluster: Cluster, starts: dict[Partition, int], ends: dict[Partition, int]
    ) -> None:
        """Narrow the ranges to the offsets that the filters allow."""
        bounds = self._bounds
        if bounds.min_timestamp is not None and bounds.min_timestamp > 0:
            first = list_offsets(cluster, dict.fromkeys(starts, bounds.min_timestamp))
            for each, at in first.items():
                starts[each] = max(starts[each], ends[each] if at.offset < 0 else at.offset)
        for each, end in ends.items():
            if bounds.min_offset is not None:
                starts[each] = max(starts[each], bounds.min_offset)
            if bounds.max_offset is not None:
                ends[each] = min(end, bounds.max_offset + 1)
