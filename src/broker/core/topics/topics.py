"""Topics: which exist, with their ids, configurations and the logs of their partitions.

The commit in the metadata store decides whether a topic exists. A create commits first and then
makes the folders: a start makes those that a crash prevented. A delete commits first and then
removes the folders (`deletion.py`): the store records those that a crash has left. A new topic can
be looked up once all its logs are open, so clients never see a partition without a leader; after a
start, `is_loading` of each log tells whether it can serve.
"""

import asyncio
import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from broker.core.configs.broker_configs import Commit
from broker.core.logs.log import Log
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.topics import records as topic_records
from broker.core.topics import rules
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import PartitionLogs, TopicTable
from broker.core.topics.topic import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.model import limits
from broker.model.config import Config
from broker.model.errors import (
    ConfigError,
    ErrorCode,
    RequestError,
    StorageError,
    disk_refusal,
)
from broker.model.identifiers import id_to_text, random_id
from broker.model.own_config import ConfigChange
from broker.model.topic_config import TopicConfig
from broker.storage import metadata
from broker.storage.metadata.blocking import BlockingMetaStore

_log = logging.getLogger(__name__)

# Kafka's own settings of internal topics, and group commit: a commit that was acknowledged to a
# group or producer must survive a power cut.
_COORDINATOR_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 << 20),
    "polylog.durability": "group-commit",
}
_COORDINATOR_PARTITIONS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


class Topics:
    """All topics of this broker."""

    def __init__(
        self,
        config: Config,
        store: BlockingMetaStore,
        io_thread: IoThread,
        table: TopicTable,
        logs: PartitionLogs,
        deletions: Deletions,
    ) -> None:
        """Start empty; `load` reads the store."""
        self._config = config
        self._store = store
        self._io_thread = io_thread
        self._table = table
        self._logs = logs
        self._deletions = deletions
        self._plain_config = TopicConfig({}, config)  # of all topics without own values
        self._by_name: dict[str, Topic] = {}
        self._names: list[str] = []  # sorted
        self._by_id: dict[bytes, Topic] = {}
        self._colliding: dict[str, str] = {}  # name as in metrics ("." as "_") → name
        self._partition_count = 0
        self.version = 0  # grows when a topic is created, deleted or gets partitions
        self._is_loading = True  # when it was asked last
        self._on_delete: list[Callable[[str], None]] = []
        self._changes = asyncio.Lock()  # one create or delete at a time
        self._tasks = Tasks()

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over every topic, by name; for changes meanwhile see `from_name`."""
        return self.from_name("")

    def from_name(self, first: str) -> Iterator[Topic]:
        """Return the topics with this name and greater ones, by name, as of this call.

        The caller may yield to other work between two of them: a topic that is deleted meanwhile is
        skipped, one that is created is not included.
        """
        names = self._names[bisect_left(self._names, first) :]
        return (topic for name in names if (topic := self._by_name.get(name)) is not None)

    @property
    def revision(self) -> tuple[int, int]:
        """The revision of what Metadata describes: topics, and the states of their logs.

        It changes when a topic is created, deleted or gets partitions, and when a log begins or
        ends loading, goes offline or begins a leader epoch.
        """
        return self.version, self._logs.change_count

    @property
    def is_loading(self) -> bool:
        """Whether a log of the start is not loaded yet."""
        self._is_loading = self._is_loading and any(log.is_loading for log, _ in self.logs())
        return self._is_loading

    def get(self, name: str) -> Topic | None:
        """Return the topic of that name, or None."""
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id, or None."""
        return self._by_id.get(topic_id)

    def names(self) -> Collection[str]:
        """Return every topic's name, in order, as of this call."""
        return list(self._names)

    def logs(self) -> Iterator[tuple[Any, TopicConfig]]:
        """Iterate over every log, as `PartitionLogs` returns it, with its topic's configuration."""
        return ((log, topic.config) for topic in self._by_name.values() for log in topic.logs)

    def when_deleted(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets the name of each topic after its deletion."""
        self._on_delete.append(callback)

    def load(self) -> list[Any]:
        """Register every topic of the store; return their logs, which are still to be loaded.

        Deletions that a crash interrupted continue: their folders are renamed first.
        """
        loading: list[Any] = []
        for name, topic_id, partitions, own_config in topic_records.read_all(self._store):
            plan = rules.Plan(name, partitions, self._config_of(own_config))
            logs = self._logs.announce_topic(name, topic_id, partitions, plan.config)
            self._publish(plan, topic_id, logs)
            # Internal topics first: groups wait for them.
            loading = [*logs, *loading] if name in INTERNAL_TOPICS else [*loading, *logs]
        self._deletions.resume(lambda name: name in self._by_name)
        return loading

    def _config_of(self, own: Mapping[str, str]) -> TopicConfig:
        return TopicConfig(own, self._config) if own else self._plain_config

    def plan(self, new: rules.NewTopic) -> rules.Plan:
        """Check a new topic without creating it; raises RequestError.

        Internal topics get the broker's own settings, whichever request creates them.
        """
        rules.check_name(new.name)
        if new.name in self._by_name:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{new.name}' already exists")
        collision = self._colliding.get(rules.metric_name(new.name))
        if collision is not None:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic '{new.name}' collides with existing topic '{collision}'",
            )
        partitions = self._new_partitions(new)
        rules.check_partition_count(partitions, existing=0, held=self._partition_count)
        try:
            config = self._new_config(new)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return rules.Plan(new.name, partitions, config)

    def _new_partitions(self, new: rules.NewTopic) -> int:
        setting = _COORDINATOR_PARTITIONS.get(new.name)
        if setting is not None and new.partitions == rules.DEFAULT and not new.assignments:
            new = new._replace(partitions=self._config.integer(setting))
        return rules.partition_count(new, self._config)

    def _new_config(self, new: rules.NewTopic) -> TopicConfig:
        own = rules.without_null(new.config)
        if new.name not in INTERNAL_TOPICS:
            return self._config_of(own)
        rules.check_durability(new.name, self._config_of({**_COORDINATOR_CONFIG, **own}))
        return self._config_of({**own, **_COORDINATOR_CONFIG})

    async def create(self, new: rules.NewTopic) -> Topic:
        """Create a topic; at return it can be written and read."""
        return await self._tasks.run_to_completion(self._create(new))

    async def get_or_create(self, name: str, partitions: int = rules.DEFAULT) -> Topic:
        """Return the topic of that name; create it with the broker's defaults if need be."""
        try:
            return self._by_name.get(name) or await self.create(rules.NewTopic(name, partitions))
        except RequestError as error:
            existing = self._by_name.get(name)  # created by another request meanwhile
            if existing is None or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return existing

    async def offsets_topic(self) -> Topic:
        """Return `__consumer_offsets`, created if need be; its acks wait for the disk."""
        return await self.get_or_create(OFFSETS_TOPIC)

    async def transactions_topic(self) -> Topic:
        """Return `__transaction_state`, created if need be."""
        return await self.get_or_create(TRANSACTIONS_TOPIC)

    async def delete(self, topic: Topic) -> None:
        """Delete a topic, its configuration and its records."""
        await self._tasks.run_to_completion(self._delete(topic))

    def plan_config(self, topic: Topic, change: ConfigChange) -> TopicConfig:
        """Check a change of a topic's configuration without making it; raises RequestError."""
        try:
            config = TopicConfig(change(topic.config), self._config)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        rules.check_durability(topic.name, config)
        return config

    async def alter_config(self, topic: Topic, change: ConfigChange) -> None:
        """Change a topic's configuration: in force from the next append on, and durable."""
        await self._tasks.run_to_completion(self._alter_config(topic, change))

    async def alter_defaults(self, config: Config, commit: Commit | None) -> None:
        """Make every topic inherit from another broker configuration, once `commit` has stored it.

        Without `commit`, only check that all topics can; RequestError names one that cannot.
        """
        async for topic in in_steps(
            list(self._by_name.values()), limits.TOPICS_CONFIGURED_PER_STEP
        ):
            await self._logs.until_loaded(
                topic.logs
            )  # a log that is being loaded belongs to a thread
        async with self._changes:
            topics = list(self._by_name.values())
            plain = self._planned(None, {}, config)
            planned = []
            async for topic in in_steps(topics, limits.TOPICS_CONFIGURED_PER_STEP):
                own = topic.config.overrides
                planned.append(self._planned(topic, own, config) if own else plain)
            if commit is None:
                return
            await commit()
            self._config, self._plain_config = config, plain
            await self._apply_configs(zip(topics, planned, strict=True))

    def plan_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Check an increase of partitions without making it; raises RequestError."""
        rules.check_new_partitions(topic, new, self._config.integer("node.id"))
        rules.check_partition_count(new.total, existing=len(topic.logs), held=self._partition_count)

    async def add_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Add partitions to a topic; at return they can be written and read."""
        await self._tasks.run_to_completion(self._add_partitions(topic, new))

    async def _create(self, new: rules.NewTopic) -> Topic:
        async with self._changes:
            plan = self.plan(new)
            self._check_disk()
            topic_id = random_id()
            await self._commit(plan, topic_id)
            try:
                logs = await self._open(plan, topic_id)
            except StorageError as error:
                await self._transact([], topic_records.deletions(plan.name, topic_id))
                raise disk_refusal(error) from error
            shown_id, own = id_to_text(topic_id), dict(plan.config.overrides)
            _log.info(
                "topic created: topic=%s id=%s partitions=%d config=%s",
                *(plan.name, shown_id, plan.partitions, own),
            )
            return self._publish(plan, topic_id, logs)

    async def _delete(self, topic: Topic) -> None:
        await self._logs.until_loaded(topic.logs)
        async with self._changes:
            if self._by_id.get(topic.topic_id) is not topic:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            deleted = topic_records.DeletedTopic(topic.name, topic.topic_id, len(topic.logs))
            operations = topic_records.deletions(topic.name, topic.topic_id)
            await self._transact([], [*operations, topic_records.remembered(deleted)])
            self._withdraw(topic)
            shown_id = id_to_text(topic.topic_id)
            _log.info(
                "topic deleted: topic=%s id=%s partitions=%d",
                *(topic.name, shown_id, deleted.partitions),
            )
            async for log in in_steps(topic.logs, limits.LOGS_DELETED_PER_STEP):
                self._logs.delete(log)
            for callback in self._on_delete:
                callback(topic.name)
            # Before a topic of that name can be created again.
            delay_ms = topic.config.integer("file.delete.delay.ms")
            await self._deletions.put_away(deleted, delay_ms)

    async def _alter_config(self, topic: Topic, change: ConfigChange) -> None:
        await self._logs.until_loaded(topic.logs)  # a log that is being loaded belongs to a thread
        async with self._changes:
            config = self.plan_config(topic, change)
            own = config.overrides
            await self._put(
                lambda: topic_records.put_config(self._store, topic.name, topic.topic_id, own)
            )
            old = topic.config.overrides
            _log.info(
                "topic configuration altered: topic=%s set=%s removed=%s",
                topic.name,
                {key: value for key, value in own.items() if old.get(key) != value},
                [key for key in old if key not in own],
            )
            await self._apply_configs([(topic, config)])

    async def _apply_configs(self, configs: Iterable[tuple[Topic, TopicConfig]]) -> None:
        async for _ in in_steps(self._applying(configs), limits.LOGS_CONFIGURED_PER_STEP):
            pass

    def _applying(self, configs: Iterable[tuple[Topic, TopicConfig]]) -> Iterator[None]:
        """Take a step per topic, to compare its values, and one per log if they have changed."""
        for topic, config in configs:
            is_same = topic.config.has_values_of(config)
            topic.config = config
            yield
            if not is_same:
                for log in topic.logs:
                    self._logs.configure(log, config)
                    yield

    def _planned(self, topic: Topic | None, own: Mapping[str, str], config: Config) -> TopicConfig:
        try:
            planned = TopicConfig(own, config)
        except ConfigError as error:
            of = f"topic '{topic.name}' would have " if topic else ""
            raise RequestError(ErrorCode.INVALID_REQUEST, f"{of}{error}") from None
        if topic is not None:
            rules.check_durability(topic.name, planned)
        return planned

    async def _add_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Commit first, as a create does, so that a start completes it after a crash."""
        async with self._changes:
            self.plan_partitions(topic, new)
            self._check_disk()
            existing = len(topic.logs)
            await self._put_partitions(topic, new.total)
            plan = rules.Plan(topic.name, new.total, topic.config)
            try:
                logs = await self._open(plan, topic.topic_id, existing)
            except StorageError as error:
                await self._put_partitions(topic, existing)
                raise disk_refusal(error) from error
            topic.logs = [*topic.logs, *logs]
            self._partition_count += len(logs)
            self.version += 1
            self._table.add(topic.name, topic.topic_id, topic.logs)
            _log.info("partitions added: topic=%s from=%d to=%d", topic.name, existing, new.total)

    async def _put_partitions(self, topic: Topic, count: int) -> None:
        await self._put(
            lambda: topic_records.put_partitions(self._store, topic.name, topic.topic_id, count)
        )

    async def _put(self, change: Callable[[], bool]) -> None:
        """Change a topic in the store, in the I/O thread; RequestError if it has been deleted."""
        try:
            is_there = await self._io_thread.run(change)
        except StorageError as error:
            raise disk_refusal(error) from error
        if not is_there:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _commit(self, plan: rules.Plan, topic_id: bytes) -> None:
        guard = metadata.Absent(metadata.topic_key(plan.name))
        creations = topic_records.creations(
            plan.name, topic_id, plan.partitions, plan.config.overrides
        )
        if await self._transact([guard], creations) is None:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS)

    async def _transact(
        self, guards: Sequence[metadata.Guard], operations: Sequence[metadata.Operation]
    ) -> int | None:
        """Change the store, in the I/O thread."""
        try:
            return await self._io_thread.run(lambda: self._store.transact(guards, operations))
        except StorageError as error:
            raise disk_refusal(error) from error

    def _check_disk(self) -> None:
        """Refuse what takes disk space that deletes need."""
        if self._logs.is_read_only:
            raise RequestError(ErrorCode.DISK_FULL, "the disk is full: first delete something")

    async def _open(self, plan: rules.Plan, topic_id: bytes, first: int = 0) -> list[Log]:
        """Open the logs in the I/O thread; they are not published yet."""
        return await self._io_thread.run(
            lambda: list(
                self._logs.open_topic(plan.name, topic_id, plan.partitions, plan.config, first)
            )
        )

    def _publish(self, plan: rules.Plan, topic_id: bytes, logs: list[Log]) -> Topic:
        topic = Topic(plan.name, topic_id, plan.config, logs)
        insort(self._names, topic.name)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._colliding[rules.metric_name(topic.name)] = topic.name
        self._partition_count += len(topic.logs)
        self.version += 1
        self._table.add(topic.name, topic.topic_id, topic.logs)
        return topic

    def _withdraw(self, topic: Topic) -> None:
        self._table.remove(topic.name)
        self._partition_count -= len(topic.logs)
        self.version += 1
        del self._colliding[rules.metric_name(topic.name)]
        del self._by_id[topic.topic_id]
        del self._by_name[topic.name]
        del self._names[bisect_left(self._names, topic.name)]
