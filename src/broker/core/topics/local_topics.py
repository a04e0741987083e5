"""The topics and logs of this broker, which follow the image of the metadata.

    the image has            this broker does
    a new topic              opens the logs of the partitions that it leads, then registers it
    no topic any more        withdraws it, closes its logs, removes its folders
    another configuration    gives it to the topic's logs
    more partitions          opens the logs of those that it leads, then registers them
    another leader           finishes the writes that its log has accepted, and closes it
    this broker as leader    opens the log, with the leader epoch of the election; until another
                             process has closed it, somebody has to follow again

`follow` does this for one topic, whatever has changed; it may be called at any time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from broker.core.cluster import image
from broker.core.configs import records as config_records
from broker.core.logs.log import Log
from broker.core.metadata import Metadata
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import ANY_EPOCH, Leadership, PartitionLogs, TopicTable
from broker.core.topics.records import DeletedTopic
from broker.core.topics.registry import Registry
from broker.core.topics.topic import INTERNAL_TOPICS, Topic
from broker.model import limits
from broker.model.config import Config
from broker.model.errors import ConfigError
from broker.model.topic_config import TopicConfig
from broker.storage import metadata

_log = logging.getLogger(__name__)


class LocalTopics:
    """All topics, with the logs that this broker has of them."""

    def __init__(
        self,
        config: Config,
        known: Metadata,
        table: TopicTable,
        logs: PartitionLogs,
        deletions: Deletions,
        leadership: Leadership,
    ) -> None:
        """Start empty; `load` registers what the metadata has."""
        self._metadata = known
        self._logs = logs
        self._deletions = deletions
        self._leadership = leadership
        self.registry = Registry(table)
        self._is_loading = True  # when it was asked last
        self._on_delete: list[Callable[[str], None]] = []
        self._on_gain: list[Callable[[str, int], None]] = []
        self._on_open: list[Callable[[Any], None]] = []
        self._on_loss: list[Callable[[str, int], None]] = []
        self._on_busy: list[Callable[[str], None]] = []
        self._following: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.inherit(config)

    def inherit(self, config: Config) -> None:
        """Set what topics inherit that are registered from now on."""
        self.config = config
        self.plain_config = TopicConfig({}, config)  # of all topics without own values

    def config_of(self, own: Mapping[str, str]) -> TopicConfig:
        """Return a topic's configuration; ConfigError for a value that is not allowed."""
        return TopicConfig(own, self.config) if own else self.plain_config

    def logs(self) -> Iterator[tuple[Any, TopicConfig]]:
        """Iterate over every log, as `PartitionLogs` returns it, with its topic's configuration."""
        return (
            (log, topic.config) for topic in self.registry.in_any_order() for log in topic.led_logs
        )

    @property
    def is_loading(self) -> bool:
        """Whether a log of the start is not loaded yet."""
        self._is_loading = self._is_loading and any(log.is_loading for log, _ in self.logs())
        return self._is_loading

    def when_deleted(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets the name of each topic after its deletion."""
        self._on_delete.append(callback)

    def when_gained(self, callback: Callable[[str, int], None]) -> None:
        """Register a callback that gets the topic and number of a partition led from now on.

        Its log is still to be loaded. Partitions of `load`, and of new topics, are not reported.
        """
        self._on_gain.append(callback)

    def when_opened(self, callback: Callable[[Any], None]) -> None:
        """Register a callback that gets each log with records of an internal topic new to here.

        Another broker has led it before this one has heard of the topic.
        """
        self._on_open.append(callback)

    def when_lost(self, callback: Callable[[str, int], None]) -> None:
        """Register a callback that gets the topic and number of a partition not led any more."""
        self._on_loss.append(callback)

    def when_busy(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets a topic some of whose logs another process has open.

        They are led by this broker, and have to be followed again later.
        """
        self._on_busy.append(callback)

    def load(self) -> list[Any]:
        """Register every topic of the metadata; return their logs, which are still to be loaded.

        Deletions that a crash interrupted continue: their folders are renamed first.
        """
        loading: list[Any] = []
        known = self._metadata.image
        own = config_records.read_all(known, metadata.TOPIC_CONFIGS)
        # Internal topics first: groups wait for them.
        for name in sorted(known.topic_ids, key=lambda each: (each not in INTERNAL_TOPICS, each)):
            topic_id = known.topic_ids[name]
            config = self.config_of(own.get(name, {}))
            partitions = range(known.topics[topic_id].record.partitions)
            led = self._claim(name, topic_id, partitions)
            logs = self._logs.announce_topic(name, topic_id, led, config)
            self.registry.add(Topic(name, topic_id, config, _placed(logs, led, partitions)))
            loading += logs
        self._deletions.resume(lambda name: self.registry.get(name) is not None)
        return loading

    async def follow(self, name: str, partitions: Collection[int] | None = None) -> Topic | None:
        """Make a topic what the metadata says, and return it; None if there is none.

        Called after each change, by whoever has made it or has learned of it. `partitions` are
        those whose leader may have changed; None: any of them.

        Raises:
            StorageError: logs cannot be opened; none of them is left.
        """
        async with self._lock(name):
            wanted = self._metadata.image.topic(name)
            topic = self.registry.get(name)
            if topic is not None and (wanted is None or wanted.record.topic_id != topic.topic_id):
                await self._remove(topic)
                topic = None
            if wanted is None:
                return None
            own = config_records.read(self._metadata.image, metadata.topic_config_key(name))
            if topic is None:
                inherited, config = self.config, self.config_of(own)
                logs = await self._open(wanted, config, 0)
                topic = Topic(name, wanted.record.topic_id, config, logs)
                self.registry.add(topic)
                self._report_opened(topic)
                if self.config is not inherited:
                    await self.apply_configs([(topic, self.config_of(own))])
            elif dict(topic.config.overrides) != own:
                await self._logs.until_loaded(topic.led_logs)
                await self.apply_configs([(topic, self.config_of(own))])
            existing = len(topic.logs)
            if existing < wanted.record.partitions:
                self.registry.extend(topic, await self._open(wanted, topic.config, existing))
            await self._follow_leaders(topic, partitions)
            return topic

    async def follow_deleted(self, topic_id: bytes) -> None:
        """Remove what this broker has of a topic that another one has deleted.

        Called after each change of the record of a deleted topic.
        """
        stored = self._metadata.image.deleted.get(topic_id)
        # Without a record its brokers have confirmed already; one without replicas is not asked.
        named = self.registry.by_id(topic_id) if stored is None else stored.topic
        name = "" if named is None else named.name
        async with self._lock(name):
            topic = self.registry.by_id(topic_id)
            if topic is not None and topic_id not in self._metadata.image.topics:
                await self._remove(topic)
            is_name_taken = self.registry.get(name) is not None
            await self._deletions.follow(topic_id, is_name_taken=is_name_taken)

    def _lock(self, name: str) -> asyncio.Lock:
        """Return the lock under which a topic of that name is changed."""
        lock = self._following.get(name)
        if lock is None:
            lock = self._following[name] = asyncio.Lock()
        return lock

    async def _open(self, topic: image.Topic, config: TopicConfig, first: int) -> list[Log | None]:
        """Open the logs from partition `first` on, of those that this broker leads."""
        topic_id = topic.record.topic_id
        partitions = range(first, topic.record.partitions)
        led: list[int] = []
        async for part in in_parts(partitions, limits.LOGS_CONFIGURED_PER_STEP):
            led += self._claim(topic.name, topic_id, part)
        # With none there is nothing to wait for: the I/O thread may have a long queue.
        logs = await self._logs.open_topic(topic.name, topic_id, led, config) if led else []
        async for log in in_steps(logs, limits.LOGS_CONFIGURED_PER_STEP):
            self.prepare(log)
        return _placed(logs, led, partitions)

    def _report_opened(self, topic: Topic) -> None:
        for log in topic.led_logs if topic.is_internal else ():
            if log.log_end_offset:
                for callback in self._on_open:
                    callback(log)

    async def _follow_leaders(self, topic: Topic, partitions: Collection[int] | None) -> None:
        """Close the logs of partitions that others lead now, and open those led here."""
        gained: list[int] = []
        lost: list[Log] = []
        changed = range(len(topic.logs)) if partitions is None else partitions
        known = filter(topic.has_partition, changed)
        async for number in in_steps(known, limits.LOGS_CONFIGURED_PER_STEP):
            epoch, log = self._leadership.epoch(topic.topic_id, number), topic.logs[number]
            if log is None:
                gained += [] if epoch is None else [number]
            elif epoch is None:
                lost.append(log)
            elif not log.is_loading:
                self.prepare(log)
        for first in range(0, len(lost), limits.LOGS_RELEASED_AT_ONCE):
            some = lost[first : first + limits.LOGS_RELEASED_AT_ONCE]
            releases = (self._release(topic, log) for log in some)
            try:
                # All of them end here: none may still run when somebody else has the lock.
                ended = await asyncio.gather(*releases, return_exceptions=True)
            finally:
                self.registry.log_changed(topic)
            for error in filter(None, ended):
                raise error
        is_busy = False
        async for part in in_parts(gained, limits.LOGS_ANNOUNCED_PER_STEP):
            claimed = self._logs.claim(topic.name, topic.topic_id, part)
            self._gain(topic, claimed)
            is_busy = is_busy or len(claimed) < len(part)
        for busy in self._on_busy if is_busy else ():
            busy(topic.name)

    def _gain(self, topic: Topic, numbers: Sequence[int]) -> None:
        """Announce the logs of partitions that this broker leads now, and begin to load them."""
        logs = self._logs.announce_topic(topic.name, topic.topic_id, numbers, topic.config)
        for number, log in zip(numbers, logs, strict=True):
            topic.logs[number] = log
            for callback in self._on_gain:
                callback(topic.name, number)
        self.registry.log_changed(topic)
        self._logs.load(logs)

    async def _release(self, topic: Topic, log: Log) -> None:
        for callback in self._on_loss:
            callback(topic.name, log.partition)
        await self._logs.release(log)
        topic.logs[log.partition] = None

    def prepare(self, log: Any) -> None:  # noqa: ANN401 (a log)
        """Give a log the leader epoch of its leader's election, before it takes a batch."""
        epoch = self._leadership.epoch(log.topic_id, log.partition)
        if epoch is None or epoch == ANY_EPOCH or log.is_offline:
            return
        log.elected()
        if epoch < log.leader_epoch:
            log.take_offline(
                f"its leader epoch {log.leader_epoch} is above {epoch}, that of the metadata"
                " store: if that was restored from an old backup, stop all brokers and run"
                " `broker metadata bump-epochs`"
            )
        elif epoch > log.leader_epoch:
            log.start_epoch(epoch)

    def _claim(self, topic: str, topic_id: bytes, numbers: Iterable[int]) -> list[int]:
        """Return the partitions that this broker leads, and whose logs no other process has."""
        led = [each for each in numbers if self._leadership.epoch(topic_id, each) is not None]
        return self._logs.claim(topic, topic_id, led)

    async def _remove(self, topic: Topic) -> None:
        await self._logs.until_loaded(topic.led_logs)  # one that is loaded belongs to a thread
        self.registry.remove(topic)
        async for log in in_steps(topic.led_logs, limits.LOGS_DELETED_PER_STEP):
            self._logs.delete(log)
        self._logs.forget(topic.name, [n for n, log in enumerate(topic.logs) if log is None])
        for callback in self._on_delete:
            callback(topic.name)
        partitions = len(topic.logs)
        recorded = self._metadata.image.deleted.get(topic.topic_id)
        if recorded is not None:  # it may have been enlarged before, and not followed
            partitions = max(partitions, recorded.topic.partitions)
        deleted = DeletedTopic(topic.name, topic.topic_id, partitions)
        # Before a topic of that name can be created again.
        await self._deletions.put_away(deleted, topic.config.integer("file.delete.delay.ms"))
        await self._logs.free_deleted(topic.name, range(len(topic.logs)))

    async def apply_configs(self, configs: Iterable[tuple[Topic, TopicConfig]]) -> None:
        """Give topics these configurations, and their logs, in steps."""
        async for _ in in_steps(self._applying(configs), limits.LOGS_CONFIGURED_PER_STEP):
            pass

    async def apply_defaults(self, planned: Mapping[bytes, TopicConfig]) -> None:
        """Let all topics inherit from `config`, which was set.

        Args:
            planned: configurations by topic id; a topic without one, or with other own values by
                now, has changed meanwhile.
        """
        await self.apply_configs(
            (topic, self._inheriting(topic, planned.get(topic.topic_id)))
            for topic in self.registry.in_any_order()
        )

    def _inheriting(self, topic: Topic, planned: TopicConfig | None) -> TopicConfig:
        own = topic.config.overrides
        if planned is not None and planned.overrides == own:
            return planned
        try:
            return self.config_of(own)
        except ConfigError as error:
            _log.error("defaults not inherited: topic=%s error=%s", topic.name, error)
            return topic.config

    def _applying(self, configs: Iterable[tuple[Topic, TopicConfig]]) -> Iterator[None]:
        """Take a step per topic, to compare its values, and one per log if they have changed."""
        for topic, config in configs:
            is_same = topic.config.has_values_of(config)
            topic.config = config
            yield
            if not is_same:
                for log in topic.led_logs:
                    self._logs.configure(log, config)
                    yield


def _placed(logs: Sequence[Log], led: Sequence[int], partitions: range) -> list[Log | None]:
    """Return the logs by partition, with None for those of other leaders."""
    by_number = dict(zip(led, logs, strict=True))
    return [by_number.get(number) for number in partitions]
