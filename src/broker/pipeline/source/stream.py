"""A stream: what each trigger reads, and what becomes of topics that change meanwhile.

One reader lives as long as its query, in one process; `read` runs elsewhere, in the tasks. Offsets
that a trigger begins with come from Spark's checkpoint, so nothing that is kept here is needed
after a restart. Partitions and topics that appear are read from their beginning.
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
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, LATEST
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.limits import CLIENT_FETCH_BYTES_MIN
from broker.pipeline.decoding import Selection
from broker.pipeline.source.offsets import Offsets, TopicOffsets, from_json, to_json
from broker.pipeline.source.planning import (
    Partition,
    limited,
    limited_by_bytes,
    losses,
    shared,
    split,
)
from broker.pipeline.source.settings import Settings
from broker.pipeline.source.task import read_task
from broker.pipeline.source.topics import (
    edges,
    find_topics,
    find_topics_left,
    is_read,
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
        """Keep what is asked for; nothing is connected."""
        self._settings = settings
        self._columns = columns
        self._clock = clock or SystemClock()
        self._newest: Offsets | None = None  # all that there is, for the query's progress
        self._goal: dict[Partition, int] | None = None  # of Trigger.AvailableNow
        self._last_trigger_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins.

        Spark asks again when the first batch of a query was planned and has not ended: what it is
        of may have gone meanwhile.

        Raises:
            DataLoss: a start that is not there.
            ConfigError, RequestError, Unreachable: what is to be read is not there, in words.
        """
        cluster = self._settings.cluster()
        starting = self._settings.starting
        if self._settings.fails_on_data_loss:
            topics = find_topics(cluster, self._settings)
        else:
            topics = find_topics_left(cluster, self._settings)
            missing = named_topics(self._settings) - topics.keys()
            report_loss(
                self._settings, [f"there is no topic named {each!r}" for each in sorted(missing)]
            )
            starting = starting.without(missing)
        partitions = partitions_of(topics)
        starts = resolve(cluster, self._settings, starting, partitions, is_start=True)
        if self._settings.starting.offsets:
            earliest = edges(cluster, self._settings, partitions, EARLIEST)
            latest = edges(cluster, self._settings, partitions, LATEST)
            report_loss(self._settings, losses(starts, earliest, latest))
            starts = {
                each: min(max(offset, earliest[each]), latest[each])
                for each, offset in starts.items()
            }
        return to_json(_standing(topics, starts))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a trigger; what Spark has no word for is kept in latestOffset."""
        settings = self._settings
        if settings.trigger_offsets_max:
            return ReadMaxRows(settings.trigger_offsets_max)
        if settings.trigger_bytes_max:
            return ReadMaxBytes(settings.trigger_bytes_max)
        if settings.trigger_offsets_min:
            return ReadMinRows(settings.trigger_offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note what there is now: the query ends when it has read that."""
        cluster = self._settings.cluster()
        topics = find_topics_left(cluster, self._settings)
        self._goal = edges(cluster, self._settings, partitions_of(topics), LATEST)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next trigger ends: at `start` itself when there is nothing to read.

        Raises:
            DataLoss: a topic or partition has gone, or a topic was made again.
            ConfigError: the checkpoint is that of other topics.
            RequestError, Unreachable: as the client.
        """
        cluster = self._settings.cluster()
        begun = from_json(start)
        topics = find_topics_left(cluster, self._settings)
        begins, ends = self._waiting(cluster, begun, topics)
        self._check_ends(begins, ends)
        self._newest = _standing(topics, ends)
        if self._goal is not None:
            ends = {each: min(end, self._goal.get(each, 0)) for each, end in ends.items()}
        ends = self._limited(cluster, topics, begins, ends, limit)
        topic_offsets = _standing(topics, {each: max(ends[each], begins[each]) for each in ends})
        return start if _is_same(begun, topic_offsets) else to_json(topic_offsets)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return all that there was to read at the last look, for the query's progress."""
        return None if self._newest is None else to_json(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a trigger.

        Raises:
            DataLoss: what a trigger is to read is gone.
            RequestError, Unreachable: as the client.
        """
        begun, target = from_json(start), from_json(end)
        if _is_same(begun, target):
            return []
        cluster = self._settings.cluster()
        topics = self._still_there(cluster, target)
        partitions = partitions_of(topics)
        earliest = edges(cluster, self._settings, partitions, EARLIEST)
        ends = {(name, each): target[name].offsets[each] for name, each in partitions}
        begins = self._begins(begun, topics, earliest)
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

    def _still_there(self, cluster: Cluster, target: Offsets) -> dict[str, Topic]:
        """What there is of a trigger that was planned, maybe long ago; report what is gone."""
        found = cluster.existing_topics(target) if target else {}
        topics = {}
        gone = []
        for name, topic_offsets in target.items():
            now = found.get(name)
            if now is None or _is_another(topic_offsets, now):
                gone.append(_gone(name, topic_offsets, now))
                continue
            missing = sorted(topic_offsets.offsets.keys() - set(now.partitions))
            gone += [f"{name}-{each} is gone" for each in missing]
            left = tuple(sorted(topic_offsets.offsets.keys() & set(now.partitions)))
            topics[name] = Topic(name, topic_offsets.topic_id, left, is_internal=False)
        report_loss(self._settings, gone)
        return topics

    def _waiting(
        self, cluster: Cluster, begun: Offsets, topics: dict[str, Topic]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Where each partition that there is goes on, and where it ends; report what is gone."""
        if begun and not any(is_read(self._settings, name) for name in begun):
            raise ConfigError(
                f"the checkpoint is of topics {', '.join(sorted(begun))}, the query reads"
                f" {', '.join(sorted(topics)) or 'none that exists'}: a query of other topics needs"
                " a checkpoint of its own"
            )
        partitions = partitions_of(topics)
        there = set(partitions)
        gone = [
            f"{name}-{each} is gone"
            for name, topic_offsets in sorted(begun.items())
            for each in sorted(topic_offsets.offsets)
            if (name, each) not in there
        ]
        again = [
            _gone(name, begun[name], topic)
            for name, topic in sorted(topics.items())
            if name in begun and _is_another(begun[name], topic)
        ]
        report_loss(self._settings, [*gone, *again])
        ends = edges(cluster, self._settings, partitions, LATEST)
        fresh = [
            (name, each)
            for name, each in partitions
            if name not in begun
            or _is_another(begun[name], topics[name])
            or each not in begun[name].offsets
        ]
        earliest = edges(cluster, self._settings, fresh, EARLIEST)
        return self._begins(begun, topics, earliest), ends

    def _check_ends(self, begins: dict[Partition, int], ends: dict[Partition, int]) -> None:
        """Report logs that end before what was read already; go on at their ends then.

        Without the id of a topic that is how one shows that was made again.
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

    def _begins(
        self, begun: Offsets, topics: dict[str, Topic], earliest: dict[Partition, int]
    ) -> dict[Partition, int]:
        begins: dict[Partition, int] = {}
        for name, each in partitions_of(topics):
            topic_offsets = begun.get(name)
            if topic_offsets is None or _is_another(topic_offsets, topics[name]):
                begins[name, each] = earliest[name, each]
            elif each in topic_offsets.offsets:
                begins[name, each] = topic_offsets.offsets[each]
            else:
                begins[name, each] = earliest[name, each]
        return begins

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
        """Whether minOffsetsPerTrigger has this trigger wait, for maxTriggerDelay at most."""
        minimum = self._settings.trigger_offsets_min
        if not minimum or self._goal is not None:
            return False
        now = self._clock.monotonic_ms()
        waiting = sum(max(ends[each] - begins[each], 0) for each in ends)
        # As in Spark's source, the first trigger of a start waits for nothing.
        is_due = (
            self._last_trigger_ms is None
            or now - self._last_trigger_ms >= self._settings.trigger_delay_ms
        )
        if waiting < minimum and not is_due:
            return True
        self._last_trigger_ms = now
        return False


def _standing(topics: dict[str, Topic], offsets: dict[Partition, int]) -> Offsets:
    return {
        name: TopicOffsets(topic.topic_id, {each: offsets[name, each] for each in topic.partitions})
        for name, topic in topics.items()
    }


def _gone(name: str, topic_offsets: TopicOffsets, now: Topic | None) -> str:
    if now is None:
        return f"topic {name} was deleted"
    return (
        f"topic {name} was deleted and made again: its id was {topic_offsets.topic_id}, now it is"
        f" {now.topic_id}"
    )


def _is_another(topic_offsets: TopicOffsets, topic: Topic) -> bool:
    """Whether a topic has another id; Spark's own offsets, and old brokers, have none."""
    return (
        bool(topic_offsets.topic_id and topic.topic_id) and topic_offsets.topic_id != topic.topic_id
    )


def _is_same(one: Offsets, other: Offsets) -> bool:
    """Whether nothing lies between two places; an id that one of them lacks makes none."""
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
    """What the next records take in the log: of a look at their first batches."""
    if end <= begin:
        return 0
    part = Range(key[0], topics[key[0]].topic_id, key[1], begin, end)
    for chunk in fetch(
        cluster, part, is_committed=settings.is_committed, bytes_max=CLIENT_FETCH_BYTES_MIN
    ):
        first = codec.scan_headers(chunk.data)[0].base_offset
        return len(chunk.data) / max(chunk.next_offset - first, 1)
    return 0
