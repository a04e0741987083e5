"""A stream: the offsets of each trigger, and the treatment of topics that change meanwhile.

One reader lives as long as its query, in one process; `read` runs in the tasks, in other processes.
The start offsets of a trigger come from Spark's checkpoint, so no state of the reader is needed
after a restart. New partitions and topics are read from their beginning.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from broker import codec
from broker.client.fetch import Range, fetch
from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import EARLIEST, LATEST
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.limits import CLIENT_FETCH_BYTES_MIN
from broker.pipeline.decoding import Selection
from broker.pipeline.source.offsets import Offsets, TopicOffsets, from_json, to_json
from broker.pipeline.source.planning import (
    limited,
    limited_by_bytes,
    losses,
    shared,
    split,
)
from broker.pipeline.source.settings import Settings
from broker.pipeline.source.task import read_task
from broker.pipeline.source.topics import (
    find_topics,
    is_read,
    log_bounds,
    log_offsets,
    named_topics,
    partitions_of,
    report_loss,
    resolve,
)
from broker.pipeline.worker import begin_task

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow."""

    def __init__(
        self, settings: Settings, columns: tuple[str, ...], clock: Clock | None = None
    ) -> None:
        """Create a reader; nothing is connected yet."""
        self._settings = settings
        self._columns = columns
        self._clock = clock or SystemClock()
        self._latest: Offsets | None = None  # the end offsets, for the query's progress
        self._goal: dict[Partition, int] | None = None  # of Trigger.AvailableNow
        self._last_trigger_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets at which a new query begins.

        Spark calls it again after a restart if the first batch was planned but has not ended; its
        topics may have been deleted meanwhile.

        Raises:
            DataLoss: a start offset does not exist.
            ConfigError, RequestError, Unreachable: topics or partitions do not exist, or there is
                no broker.
        """
        cluster = self._settings.cluster()
        starting = self._settings.starting
        if self._settings.fails_on_data_loss:
            topics = find_topics(cluster, self._settings)
        else:
            topics = find_topics(cluster, self._settings, may_be_deleted=True)
            missing = named_topics(self._settings) - topics.keys()
            report_loss(
                self._settings, [f"there is no topic named {each!r}" for each in sorted(missing)]
            )
            starting = starting.without(missing)
        partitions = partitions_of(topics)
        starts = resolve(cluster, self._settings, starting, partitions, is_start=True)
        if self._settings.starting.offsets:
            earliest, latest = log_bounds(cluster, self._settings, partitions)
            report_loss(self._settings, losses(starts, earliest, latest))
            starts = {
                each: min(max(offset, earliest[each]), latest[each])
                for each, offset in starts.items()
            }
        return to_json(_topic_offsets(topics, starts))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a trigger; latestOffset applies further limits."""
        settings = self._settings
        if settings.trigger_offsets_max:
            return ReadMaxRows(settings.trigger_offsets_max)
        if settings.trigger_bytes_max:
            return ReadMaxBytes(settings.trigger_bytes_max)
        if settings.trigger_offsets_min:
            return ReadMinRows(settings.trigger_offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Store the current end offsets: the query ends when it has read up to them."""
        cluster = self._settings.cluster()
        topics = find_topics(cluster, self._settings, may_be_deleted=True)
        self._goal = log_offsets(cluster, self._settings, partitions_of(topics), LATEST)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end offsets of the next trigger; `start` itself if there is nothing to read.

        Raises:
            DataLoss: a topic or partition was deleted, or a topic was recreated.
            ConfigError: the checkpoint belongs to other topics.
            RequestError, Unreachable: errors of the client.
        """
        cluster = self._settings.cluster()
        start_offsets = from_json(start)
        topics = find_topics(cluster, self._settings, may_be_deleted=True)
        begins, ends = self._begins_and_ends(cluster, start_offsets, topics)
        self._check_ends(begins, ends)
        self._latest = _topic_offsets(topics, ends)
        if self._goal is not None:
            ends = {each: min(end, self._goal.get(each, 0)) for each, end in ends.items()}
        ends = self._limited(cluster, topics, begins, ends, limit)
        reached = {each: max(ends[each], begins[each]) for each in ends}
        known_offsets = _topic_offsets(topics, reached)
        return start if _is_same(start_offsets, known_offsets) else to_json(known_offsets)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the end offsets at the last call of latestOffset, for the query's progress."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a trigger.

        Raises:
            DataLoss: offsets of the trigger were deleted.
            RequestError, Unreachable: errors of the client.
        """
        start_offsets, target = from_json(start), from_json(end)
        if _is_same(start_offsets, target):
            return []
        cluster = self._settings.cluster()
        topics = self._topics_of_trigger(cluster, target)
        partitions = partitions_of(topics)
        earliest = log_offsets(cluster, self._settings, partitions, EARLIEST)
        ends = {(name, each): target[name].offsets[each] for name, each in partitions}
        begins = earliest | _reached(start_offsets, topics)
        known = {each: begin for each, begin in begins.items() if begin != earliest[each]}
        report_loss(self._settings, losses(known, earliest, ends))
        ranges = [
            Range(name, topics[name].topic_id, each, max(begins[key], earliest[key]), ends[key])
            for key in partitions
            for name, each in [key]
        ]
        settings = self._settings
        pieces = split(ranges, settings.min_partitions, settings.records_per_task_max)
        if settings.min_partitions:
            return [InputPartition((each,)) for each in pieces]
        return [InputPartition(each) for each in shared(pieces, settings.records_per_task_max)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the records of one task."""
        if partition.value is None:
            return
        if self._settings.tunes_worker:
            begin_task()
        selection = Selection(self._columns, keys=self._settings.key_prefix)
        yield from read_task(self._settings, partition.value, selection)

    def _topics_of_trigger(self, cluster: Cluster, target: Offsets) -> dict[str, Topic]:
        """Return the topics of a trigger that still exist; report the others."""
        found = cluster.existing_topics(target) if target else {}
        topics = {}
        gone = []
        for name, known_offsets in target.items():
            now = found.get(name)
            if now is None or _has_other_id(known_offsets, now):
                gone.append(_loss_text(name, known_offsets, now))
                continue
            missing = sorted(known_offsets.offsets.keys() - set(now.partitions))
            gone += [f"{name}-{each} was deleted" for each in missing]
            left = tuple(sorted(known_offsets.offsets.keys() & set(now.partitions)))
            topics[name] = Topic(name, known_offsets.topic_id, left, is_internal=False)
        report_loss(self._settings, gone)
        return topics

    def _begins_and_ends(
        self, cluster: Cluster, start_offsets: Offsets, topics: dict[str, Topic]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Return the start and end offsets of all existing partitions; report deleted ones."""
        if start_offsets and not any(is_read(self._settings, name) for name in start_offsets):
            raise ConfigError(
                f"the checkpoint is of topics {', '.join(sorted(start_offsets))}, the query reads"
                f" {', '.join(sorted(topics)) or 'none that exists'}: a query of other topics needs"
                " a checkpoint of its own"
            )
        partitions = partitions_of(topics)
        existing = set(partitions)
        gone = [
            f"{name}-{each} was deleted"
            for name, known_offsets in sorted(start_offsets.items())
            for each in sorted(known_offsets.offsets)
            if (name, each) not in existing
        ]
        recreated = [
            _loss_text(name, start_offsets[name], topic)
            for name, topic in sorted(topics.items())
            if name in start_offsets and _has_other_id(start_offsets[name], topic)
        ]
        report_loss(self._settings, [*gone, *recreated])
        ends = log_offsets(cluster, self._settings, partitions, LATEST)
        reached = _reached(start_offsets, topics)
        fresh = existing - reached.keys()
        return reached | log_offsets(cluster, self._settings, fresh, EARLIEST), ends

    def _check_ends(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> None:
        """Report logs that end before the offsets already read, and continue at their ends.

        A recreated topic is recognized by this if the broker has no topic ids.
        """
        short = {each: end for each, end in ends.items() if end < begins[each]}
        report_loss(
            self._settings,
            [
                f"{topic}-{each}: expected offset {begins[topic, each]}, the log ends at {end}"
                for (topic, each), end in sorted(short.items())
            ],
        )
        begins |= short

    def _limited(
        self,
        cluster: Cluster,
        topics: dict[str, Topic],
        begins: dict[Partition, int],
        ends: dict[Partition, int],
        limit: ReadLimit,
    ) -> dict[Partition, int]:
        if isinstance(limit, ReadAllAvailable):
            return ends
        settings = self._settings
        if self._is_too_early(begins, ends):
            return begins
        if settings.trigger_offsets_max:
            ends = limited(begins, ends, settings.trigger_offsets_max)
        if settings.trigger_bytes_max:
            sizes = {
                each: _bytes_per_offset(cluster, settings, topics, each, begins[each], ends[each])
                for each in ends
            }
            ends = limited_by_bytes(begins, ends, sizes, settings.trigger_bytes_max)
        return ends

    def _is_too_early(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> bool:
        """Return whether the trigger waits for minOffsetsPerTrigger, until maxTriggerDelay."""
        minimum = self._settings.trigger_offsets_min
        if not minimum or self._goal is not None:
            return False
        now = self._clock.monotonic_ms()
        waiting = sum(max(ends[each] - begins[each], 0) for each in ends)
        # As in Spark's source, the first trigger after a start does not wait.
        is_due = (
            self._last_trigger_ms is None
            or now - self._last_trigger_ms >= self._settings.trigger_delay_ms
        )
        if waiting < minimum and not is_due:
            return True
        self._last_trigger_ms = now
        return False


def _reached(start_offsets: Offsets, topics: dict[str, Topic]) -> dict[Partition, int]:
    """Return the start offsets of the existing partitions that have been read already."""
    return {
        (name, each): known_offsets.offsets[each]
        for name, known_offsets in start_offsets.items()
        if name in topics and not _has_other_id(known_offsets, topics[name])
        for each in topics[name].partitions
        if each in known_offsets.offsets
    }


def _topic_offsets(topics: dict[str, Topic], offsets: dict[Partition, int]) -> Offsets:
    return {
        name: TopicOffsets(topic.topic_id, {each: offsets[name, each] for each in topic.partitions})
        for name, topic in topics.items()
    }


def _loss_text(name: str, known_offsets: TopicOffsets, now: Topic | None) -> str:
    if now is None:
        return f"topic {name} was deleted"
    return (
        f"topic {name} was deleted and recreated: its id was {known_offsets.topic_id}, now it is"
        f" {now.topic_id}"
    )


def _has_other_id(known_offsets: TopicOffsets, topic: Topic) -> bool:
    """Return whether a topic has another id; Spark's own offsets and old brokers have no ids."""
    known_id = known_offsets.topic_id
    return bool(known_id and topic.topic_id) and known_id != topic.topic_id


def _is_same(one: Offsets, other: Offsets) -> bool:
    """Return whether offsets are equal; a missing id in the first one is ignored."""
    return one.keys() == other.keys() and all(
        one[name].offsets == other[name].offsets
        and (one[name].topic_id == other[name].topic_id or not one[name].topic_id)
        for name in one
    )


def _bytes_per_offset(
    cluster: Cluster,
    settings: Settings,
    topics: dict[str, Topic],
    key: Partition,
    begin: int,
    end: int,
) -> float:
    """Return the size of the next records in the log, measured at their first batches."""
    if end <= begin:
        return 0
    part = Range(key[0], topics[key[0]].topic_id, key[1], begin, end)
    for chunk in fetch(
        cluster, part, is_committed=settings.is_committed, bytes_max=CLIENT_FETCH_BYTES_MIN
    ):
        first = codec.scan_headers(chunk.data)[0].base_offset
        return len(chunk.data) / max(chunk.next_offset - first, 1)
    return 0
