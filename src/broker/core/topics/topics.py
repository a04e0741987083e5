"""Topics: which exist, with their ids, configurations and the logs of their partitions.

    request ── checks ── transaction ──> image of the metadata ── follow ──> logs, registry

The metadata decides whether a topic exists; everything here follows it. A new topic's folders are
made after the transaction: a start makes those that a crash prevented. A deleted topic's folders
are removed after it (`deletion.py`): the store records those that a crash has left.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from broker.core.cluster import image
from broker.core.cluster.records import TopicRecord, topic_value
from broker.core.configs import records as config_records
from broker.core.configs.broker_configs import Commit
from broker.core.logs.log import Log
from broker.core.metadata import Metadata, change
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.topics import records as topic_records
from broker.core.topics import rules
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import PartitionLogs, TopicTable
from broker.core.topics.registry import Registry
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
        known: Metadata,
        io_thread: IoThread,
        table: TopicTable,
        logs: PartitionLogs,
        deletions: Deletions,
    ) -> None:
        """Start empty; `load` registers what the metadata has."""
        self._config = config
        self._metadata = known
        self._io_thread = io_thread
        self._logs = logs
        self._deletions = deletions
        self._plain_config = TopicConfig({}, config)  # of all topics without own values
        self.registry = Registry(table)
        self.get = self.registry.get
        self.by_id = self.registry.by_id
        self.from_name = self.registry.from_name
        self._is_loading = True  # when it was asked last
        self._on_delete: list[Callable[[str], None]] = []
        self._changes = asyncio.Lock()  # one create or delete at a time
        self._tasks = Tasks()

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over every topic, by name; for changes meanwhile see `Registry.from_name`."""
        return self.registry.from_name("")

    @property
    def version(self) -> int:
        """Grows when a topic is created, deleted or gets partitions."""
        return self.registry.version

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

    def names(self) -> Collection[str]:
        """Return every topic's name, in order, as of this call."""
        return self.registry.names()

    def logs(self) -> Iterator[tuple[Any, TopicConfig]]:
        """Iterate over every log, as `PartitionLogs` returns it, with its topic's configuration."""
        return ((log, topic.config) for topic in self.registry.in_any_order() for log in topic.logs)

    def when_deleted(self, callback: Callable[[str], None]) -> None:
        """Register a callback that gets the name of each topic after its deletion."""
        self._on_delete.append(callback)

    def load(self) -> list[Any]:
        """Register every topic of the metadata; return their logs, which are still to be loaded.

        Deletions that a crash interrupted continue: their folders are renamed first.
        """
        loading: list[Any] = []
        known = self._metadata.image
        own = config_records.read_all(known, metadata.TOPIC_CONFIGS)
        for name, topic_id in sorted(known.topic_ids.items()):
            config = self._config_of(own.get(name, {}))
            partitions = known.topics[topic_id].record.partitions
            logs = self._logs.announce_topic(name, topic_id, range(partitions), config)
            self.registry.add(Topic(name, topic_id, config, logs))
            # Internal topics first: groups wait for them.
            loading = [*logs, *loading] if name in INTERNAL_TOPICS else [*loading, *logs]
        self._deletions.resume(lambda name: self.get(name) is not None)
        return loading

    def _config_of(self, own: Mapping[str, str]) -> TopicConfig:
        return TopicConfig(own, self._config) if own else self._plain_config

    def plan(self, new: rules.NewTopic) -> rules.Plan:
        """Check a new topic without creating it; raises RequestError.

        Internal topics get the broker's own settings, whichever request creates them.
        """
        rules.check_name(new.name)
        if self.get(new.name) is not None:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{new.name}' already exists")
        collision = self.registry.colliding(new.name)
        if collision is not None:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic '{new.name}' collides with existing topic '{collision}'",
            )
        partitions = self._new_partitions(new)
        rules.check_partition_count(partitions, existing=0, held=self.registry.partition_count)
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
            return self.get(name) or await self.create(rules.NewTopic(name, partitions))
        except RequestError as error:
            existing = self.get(name)  # created by another request meanwhile
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
            self.registry.in_any_order(), limits.TOPICS_CONFIGURED_PER_STEP
        ):
            # A log that is being loaded belongs to a thread.
            await self._logs.until_loaded(topic.logs)
        async with self._changes:
            topics = self.registry.in_any_order()
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
        held = self.registry.partition_count
        rules.check_partition_count(new.total, existing=len(topic.logs), held=held)

    async def add_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Add partitions to a topic; at return they can be written and read."""
        await self._tasks.run_to_completion(self._add_partitions(topic, new))

    # ---- changes ---------------------------------------------------------------------------------

    async def _create(self, new: rules.NewTopic) -> Topic:
        async with self._changes:
            plan = self.plan(new)
            self._check_disk()
            record = TopicRecord(random_id(), plan.partitions, (), {})
            guard = metadata.Absent(metadata.topic_key(plan.name))
            creations = topic_records.creations(plan.name, record, plan.config.overrides)
            if await change(self._metadata, [guard], creations) is None:
                raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS)
            try:
                topic = await self._follow(plan.name)
            except StorageError as error:
                await self._change(
                    plan.name,
                    record.topic_id,
                    topic_records.deletions(plan.name, record.topic_id),
                )
                raise disk_refusal(error) from error
            if topic is None:  # deleted by another broker meanwhile
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            _log.info(
                "topic created: topic=%s id=%s partitions=%d config=%s",
                *(topic.name, id_to_text(topic.topic_id), plan.partitions),
                dict(plan.config.overrides),
            )
            return topic

    async def _delete(self, topic: Topic) -> None:
        await self._logs.until_loaded(topic.logs)
        async with self._changes:
            partitions = len(topic.logs)
            operations = topic_records.deletions(topic.name, topic.topic_id)
            remembered = topic_records.remembered(topic.name, topic.topic_id, partitions)
            await self._change(topic.name, topic.topic_id, [*operations, remembered])
            _log.info(
                "topic deleted: topic=%s id=%s partitions=%d",
                *(topic.name, id_to_text(topic.topic_id), partitions),
            )
            await self._follow(topic.name)

    async def _alter_config(self, topic: Topic, change: ConfigChange) -> None:
        await self._logs.until_loaded(topic.logs)  # a log that is being loaded belongs to a thread
        async with self._changes:
            own = self.plan_config(topic, change).overrides
            old = topic.config.overrides
            key = metadata.topic_config_key(topic.name)
            await self._change(topic.name, topic.topic_id, [config_records.operation(key, own)])
            _log.info(
                "topic configuration altered: topic=%s set=%s removed=%s",
                topic.name,
                {key: value for key, value in own.items() if old.get(key) != value},
                [key for key in old if key not in own],
            )
            await self._follow(topic.name)

    async def _add_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Commit first, as a create does, so that a start completes it after a crash."""
        async with self._changes:
            self.plan_partitions(topic, new)
            self._check_disk()
            existing = len(topic.logs)
            await self._put_partitions(topic, new.total)
            try:
                await self._follow(topic.name)
            except StorageError as error:
                await self._put_partitions(topic, existing)
                raise disk_refusal(error) from error
            _log.info("partitions added: topic=%s from=%d to=%d", topic.name, existing, new.total)

    async def _put_partitions(self, topic: Topic, count: int) -> None:
        record = TopicRecord(topic.topic_id, count, (), {})
        put = metadata.Put(metadata.topic_key(topic.name), topic_value(record))
        await self._change(topic.name, topic.topic_id, [put])

    async def _change(
        self, name: str, topic_id: bytes, operations: Sequence[metadata.Operation]
    ) -> None:
        """Change the topic with that id; RequestError if it does not exist any more."""
        known = self._metadata.image.topics.get(topic_id)
        if known is not None:
            guard = metadata.Unchanged(metadata.topic_key(name), known.mod_revision)
            if await change(self._metadata, [guard], operations) is not None:
                return
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # ---- what follows the metadata ---------------------------------------------------------------

    async def _follow(self, name: str) -> Topic | None:
        """Make a topic what the metadata says, and return it; None if there is none.

        Raises:
            StorageError: logs cannot be opened; none of them is left.
        """
        wanted = self._metadata.image.topic(name)
        topic = self.get(name)
        if topic is not None and (wanted is None or wanted.record.topic_id != topic.topic_id):
            await self._remove(topic)
            topic = None
        if wanted is None:
            return None
        own = config_records.read(self._metadata.image, metadata.topic_config_key(name))
        if topic is None:
            config = self._config_of(own)
            logs = await self._open(wanted, config, 0)
            topic = Topic(name, wanted.record.topic_id, config, logs)
            self.registry.add(topic)
        else:
            if dict(topic.config.overrides) != own:
                await self._apply_configs([(topic, self._config_of(own))])
            existing = len(topic.logs)
            if existing < wanted.record.partitions:
                self.registry.extend(topic, await self._open(wanted, topic.config, existing))
        return topic

    async def _open(self, topic: image.Topic, config: TopicConfig, first: int) -> list[Log]:
        """Open logs from partition `first` on, in the I/O thread."""
        name, record = topic.name, topic.record
        return await self._io_thread.run(
            lambda: list(
                self._logs.open_topic(
                    name, record.topic_id, range(first, record.partitions), config
                )
            )
        )

    async def _remove(self, topic: Topic) -> None:
        self.registry.remove(topic)
        async for log in in_steps(topic.logs, limits.LOGS_DELETED_PER_STEP):
            self._logs.delete(log)
        for callback in self._on_delete:
            callback(topic.name)
        deleted = topic_records.DeletedTopic(topic.name, topic.topic_id, len(topic.logs))
        # Before a topic of that name can be created again.
        await self._deletions.put_away(deleted, topic.config.integer("file.delete.delay.ms"))

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

    def _check_disk(self) -> None:
        """Refuse what takes disk space that deletes need."""
        if self._logs.is_read_only:
            raise RequestError(ErrorCode.DISK_FULL, "the disk is full: first delete something")
