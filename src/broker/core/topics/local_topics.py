"""The topics and logs of this broker, which follow the image of the metadata.

    the image has            this broker does
    a new topic              opens the logs of the partitions that it leads or follows, then
                             registers it
    no topic any more        withdraws it, closes its logs, removes its folders
    another configuration    gives it to the topic's logs
    more partitions          opens the logs of those that it leads or follows, then registers them
    another leader, ISR or   gives the log its role (role_changes.py); until another process has
    replicas                 closed a log, somebody has to follow again

`follow` does this for one topic, whatever has changed; it may be called at any time.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

from broker.core.cluster import image
from broker.core.configs import records as config_records
from broker.core.logs.log import Log
from broker.core.metadata import Metadata
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import Leadership, PartitionLogs, TopicTable
from broker.core.topics.records import DeletedTopic
from broker.core.topics.registry import Registry
from broker.core.topics.role_changes import RoleChanges
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
        self.registry = Registry(table)
        self.roles = RoleChanges(self.registry, logs, leadership, self.follow)
        self.prepare = self.roles.prepare
        self._is_loading = True  # when it was asked last
        self.config_changes = 0  # of topics, since the start
        self._on_delete: list[Callable[[str], None]] = []
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
        """Iterate over every log, led or followed, with its topic's configuration."""
        return (
            (log, topic.config) for topic in self.registry.in_any_order() for log in topic.held_logs
        )

    @property
    def is_loading(self) -> bool:
        """Whether a log of the start is not loaded yet."""
        if self._is_loading:
            # From the end: they are loaded in their order, so that one that waits is found at once.
            topics = reversed(self.registry.in_any_order())
            self._is_loading = any(log.is_loading for each in topics for log in each.held_logs)
        return self._is_loading

    def when_deleted(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets the name of each topic after its deletion."""
        self._on_delete.append(callback)

    def when_gained(self, callback: Callable[[str, int], None]) -> None:
        """Register a callback that gets the topic and number of a partition led from now on.

        Its log is still to be loaded. Partitions of `load`, and of new topics, are not reported.
        """
        self.roles.on_gain.append(callback)

    def when_opened(self, callback: Callable[[Any], None]) -> None:
        """Register a callback that gets each log that is led from now on and is loaded already.

        It has followed until now, or is one with records of an internal topic new to here: another
        broker has led it before this one has heard of the topic.
        """
        self.roles.on_open.append(callback)

    def when_lost(self, callback: Callable[[str, int], None]) -> None:
        """Register a callback that gets the topic and number of a partition not led any more."""
        self.roles.on_loss.append(callback)

    def when_followed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        """Register a callback that gets each log that follows from now on, or in another epoch.

        With the id of its topic and its partition; it is loaded, and has the epoch.
        """
        self.roles.on_follow.append(callback)

    def when_unfollowed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        """Register a callback that gets each log that leads next, or is closed or deleted."""
        self.roles.on_unfollow.append(callback)

    def when_busy(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets a topic some of whose logs another process has open.

        They are led by this broker, and have to be followed again later.
        """
        self.roles.on_busy.append(callback)

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
            partitions = known.topics[topic_id].record.partitions
            held = self.roles.claim(name, topic_id, range(partitions))
            logs = self._logs.announce_topic(name, topic_id, held, config)
            topic = Topic(name, topic_id, config, [None] * partitions)
            self.roles.place(topic, logs, held)
            self.registry.add(topic)
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
                logs, leads = await self._open(wanted, config, 0)
                partition_count = wanted.record.partitions
                topic = Topic(name, wanted.record.topic_id, config, [None] * partition_count)
                self.roles.place(topic, logs, leads)
                self.registry.add(topic)
                self.roles.report_opened(topic, logs)
                if self.config is not inherited:
                    await self.apply_configs([(topic, self.config_of(own))])
            elif dict(topic.config.overrides) != own:
                await self._logs.until_loaded(topic.held_logs)
                await self.apply_configs([(topic, self.config_of(own))])
            existing = len(topic.logs)
            if existing < wanted.record.partitions:
                logs, leads = await self._open(wanted, topic.config, existing)
                added = wanted.record.partitions - existing
                topic.logs = [*topic.logs, *[None] * added]
                self.roles.place(topic, logs, leads)
                self.registry.extended(topic, added)
                self.roles.report_opened(topic, logs)
            await self.roles.follow(topic, partitions)
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

    async def _open(
        self, topic: image.Topic, config: TopicConfig, first: int
    ) -> tuple[list[Log], dict[int, bool]]:
        """Open the logs from partition `first` on, of those that this broker has a role for.

        Returns with them whether each partition is led.
        """
        topic_id = topic.record.topic_id
        held: dict[int, bool] = {}
        partitions = range(first, topic.record.partitions)
        async for part in in_parts(partitions, limits.LOGS_CONFIGURED_PER_STEP):
            held |= self.roles.claim(topic.name, topic_id, part)
        # With none there is nothing to wait for: the I/O thread may have a long queue.
        logs = await self._logs.open_topic(topic.name, topic_id, held, config) if held else []
        async for log in in_steps(logs, limits.LOGS_CONFIGURED_PER_STEP):
            self.roles.prepare_new(log, leads=held[log.partition])
        return logs, held

    async def _remove(self, topic: Topic) -> None:
        await self._logs.until_loaded(topic.held_logs)  # one that is loaded belongs to a thread
        self.registry.remove(topic)
        self.roles.removed(topic)
        held = topic.held_logs
        await self._logs.until_loaded(held)  # nor one that is cut: that does not begin any more
        async for log in in_steps(held, limits.LOGS_DELETED_PER_STEP):
            self._logs.delete(log)
        others = {*range(len(topic.logs))}.difference(log.partition for log in held)
        self._logs.forget(topic.name, sorted(others))
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
            self.config_changes += not is_same
            yield
            if not is_same:
                for log in topic.held_logs:
                    self._logs.configure(log, config)
                    yield
