"""Topics: which exist, with their ids, configurations and the logs of their partitions.

    request ── checks ── transaction ──> image of the metadata ── follow ──> logs, registry

The metadata decides whether a topic exists; everything here follows it. A new topic's folders are
made after the transaction: a start makes those that a crash prevented. A deleted topic's folders
are removed after it (`deletion.py`): the store records those that a crash has left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial

from broker.core.cluster.image import Topic as KnownTopic
from broker.core.cluster.records import Transaction
from broker.core.configs import records as config_records
from broker.core.configs.broker_configs import Commit
from broker.core.configs.records import ChangedMeanwhile
from broker.core.metadata import Metadata, change
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.security.audit import AUDIT_TOPIC
from broker.core.topics import rules
from broker.core.topics.interfaces import PartitionLogs
from broker.core.topics.local_topics import LocalTopics
from broker.core.topics.placing import Placed, Placing
from broker.core.topics.topic import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Topic,
)
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
_NOTHING = Transaction((), ())

# Kafka's own settings of internal topics, and group commit: a commit that was acknowledged to a
# group or producer must survive a power cut.
_COORDINATOR_CONFIG = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 << 20),
    "polylog.durability": "group-commit",
}
# The audit keeps every event for as long as its retention says, and none is lost before.
_AUDIT_CONFIG = {"cleanup.policy": "delete", "polylog.durability": "group-commit"}
_INTERNAL_PARTITIONS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


class Topics:
    """All topics of this broker."""

    def __init__(
        self, known: Metadata, local: LocalTopics, logs: PartitionLogs, placing: Placing
    ) -> None:
        """Change the metadata of topics; `local` follows it."""
        self._placing = placing
        self._metadata = known
        self._local = local
        self._logs = logs
        self.registry = local.registry
        self.get = self.registry.get
        self.by_id = self.registry.by_id
        self.from_name = self.registry.from_name
        self.logs = local.logs
        self.load = local.load
        self.follow = local.follow
        self.follow_deleted = local.follow_deleted
        self.prepare = local.prepare
        self.when_deleted = local.when_deleted
        self.when_gained = local.when_gained
        self.when_opened = local.when_opened
        self.when_lost = local.when_lost
        self.when_followed = local.when_followed
        self.when_unfollowed = local.when_unfollowed
        self.is_ready = local.roles.is_ready
        self.when_busy = local.when_busy
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
    def config_changes(self) -> int:
        """How often the configuration of a topic has changed."""
        return self._local.config_changes

    @property
    def is_loading(self) -> bool:
        """Whether a log of the start is not loaded yet."""
        return self._local.is_loading

    def id_of_partition(self, name: str, partition: int) -> bytes | None:
        """Return the id of the topic of that name, None if it has no such partition.

        It does not matter which broker leads the partition.
        """
        topic = self.get(name)
        return topic.topic_id if topic is not None and topic.has_partition(partition) else None

    def names(self) -> Collection[str]:
        """Return every topic's name, in order, as of this call."""
        return self.registry.names()

    def plan(self, new: rules.NewTopic) -> rules.Plan:
        """Check a new topic without creating it; raises RequestError.

        Internal topics get the broker's own settings, whichever request creates them.
        """
        rules.check_name(new.name, allows_equals=new.allows_equals)
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
        return rules.Plan(new.name, partitions, config, self._factor(new))

    def _factor(self, new: rules.NewTopic) -> int:
        """Return how many replicas each partition of a new topic has; raises RequestError."""
        if new.assignments:
            self._placing.check(list(new.assignments.values()), rules.DEFAULT)
            return len(new.assignments[0])
        return self._placing.factor(new.name, new.replication_factor, self._local.config)

    def _new_partitions(self, new: rules.NewTopic) -> int:
        setting = _INTERNAL_PARTITIONS.get(new.name)
        if setting is not None and new.partitions == rules.DEFAULT and not new.assignments:
            new = new._replace(partitions=self._local.config.integer(setting))
        return rules.partition_count(new, self._local.config)

    def _new_config(self, new: rules.NewTopic) -> TopicConfig:
        own = rules.without_null(new.config)
        if new.name not in INTERNAL_TOPICS:
            return self._local.config_of(own)
        fixed = dict(_AUDIT_CONFIG if new.name == AUDIT_TOPIC else _COORDINATOR_CONFIG)
        rules.check_durability(new.name, self._local.config_of({**fixed, **own}))
        if new.name == TRANSACTIONS_TOPIC:
            fixed["min.insync.replicas"] = str(
                self._local.config.integer("transaction.state.log.min.isr")
            )
            fixed["unclean.leader.election.enable"] = "false"
        return self._local.config_of({**own, **fixed})

    async def create(self, new: rules.NewTopic) -> Topic:
        """Create a topic; at return it can be written and read."""
        return await self._tasks.run_to_completion(self._create(new))

    async def get_or_create(self, name: str, partitions: int = rules.DEFAULT) -> Topic:
        """Return the topic of that name; create it with the broker's defaults if need be."""
        try:
            return self.get(name) or await self.create(rules.NewTopic(name, partitions))
        except RequestError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            # Created by another request or broker meanwhile.
            existing = self.get(name) or await self._followed(name)
            if existing is None:
                raise
            return existing

    async def offsets_topic(self) -> Topic:
        """Return `__consumer_offsets`, created if need be; its acks wait for the disk."""
        return await self.get_or_create(OFFSETS_TOPIC)

    async def transactions_topic(self) -> Topic:
        """Return `__transaction_state`, created if need be."""
        return await self.get_or_create(TRANSACTIONS_TOPIC)

    async def audit_topic(self) -> Topic:
        """Return `__audit`, created if need be."""
        partitions = self._local.config.integer("polylog.audit.topic.partitions")
        return await self.get_or_create(AUDIT_TOPIC, partitions)

    async def delete(self, topic: Topic) -> None:
        """Delete a topic, its configuration and its records."""
        await self._tasks.run_to_completion(self._delete(topic))

    def plan_config(self, topic: Topic, change: ConfigChange) -> TopicConfig:
        """Check a change of a topic's configuration without making it; raises RequestError."""
        return self._plan_config(topic.name, topic.config, change)

    def _plan_config(self, name: str, present: TopicConfig, change: ConfigChange) -> TopicConfig:
        try:
            config = TopicConfig(change(present), self._local.config)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        rules.check_durability(name, config)
        rules.check_streams(name, present, config)
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
            await self._logs.until_loaded(topic.held_logs)
        async with self._changes:
            topics = self.registry.in_any_order()
            plain = self._planned(None, {}, config)
            planned: dict[bytes, TopicConfig] = {}
            async for topic in in_steps(topics, limits.TOPICS_CONFIGURED_PER_STEP):
                own = topic.config.overrides
                planned[topic.topic_id] = self._planned(topic, own, config) if own else plain
            if commit is None:
                return
            await commit()
            self._local.inherit(config)
            await self._local.apply_defaults(planned)

    def plan_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Check an increase of partitions without making it; raises RequestError."""
        rules.check_new_partitions(topic, new)
        self._placing.check(new.assignments or (), self._placing.factor_of(topic.topic_id))
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
            placed = Placed(
                *(plan.name, random_id(), plan.partitions, new.assignments),
                *(plan.config.overrides, plan.factor),
            )
            await self._store(placed)
            try:
                topic = await self.follow(plan.name)
            except StorageError as error:
                await self._change(
                    placed.topic_id, partial(self._placing.deletion, has_folders=False)
                )
                raise disk_refusal(error) from error
            if topic is None:  # deleted by another broker meanwhile
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            _log.info(
                "topic created: topic=%s id=%s partitions=%d replicas=%d config=%s",
                *(topic.name, id_to_text(topic.topic_id), plan.partitions, plan.factor),
                dict(plan.config.overrides),
            )
            return topic

    async def _store(self, placed: Placed) -> None:
        """Store a new topic; place it again if its brokers have changed meanwhile."""
        for _ in range(limits.CHANGE_ATTEMPTS):
            if await change(self._metadata, *await self._placing.creation(placed)) is not None:
                return
            if self._metadata.image.topic(placed.name) is not None:
                text = f"topic '{placed.name}' already exists"
                raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, text)
        raise ChangedMeanwhile

    async def _delete(self, topic: Topic) -> None:
        await self._logs.until_loaded(topic.held_logs)
        async with self._changes:
            partitions = len(topic.logs)
            await self._change(topic.topic_id, self._placing.deletion)
            _log.info(
                "topic deleted: topic=%s id=%s partitions=%d",
                *(topic.name, id_to_text(topic.topic_id), partitions),
            )
            await self._followed(topic.name)

    async def _alter_config(self, topic: Topic, change: ConfigChange) -> None:
        await self._logs.until_loaded(
            topic.held_logs
        )  # a log that is being loaded belongs to a thread
        async with self._changes:
            own: Mapping[str, str] = {}
            old: Mapping[str, str] = {}

            async def alteration(known: KnownTopic) -> Transaction:
                nonlocal own, old
                # From what is stored, which may not be in force here yet.
                old = config_records.read(self._metadata.image, key)
                own = self._plan_config(topic.name, self._local.config_of(old), change).overrides
                return self._config_change(known, key, own) if own != old else _NOTHING

            key = metadata.topic_config_key(topic.name)
            await self._change(topic.topic_id, alteration)
            _log.info(
                "topic configuration altered: topic=%s set=%s removed=%s",
                topic.name,
                {key: value for key, value in own.items() if old.get(key) != value},
                [key for key in old if key not in own],
            )
            await self._followed(topic.name)

    async def _add_partitions(self, topic: Topic, new: rules.NewPartitions) -> None:
        """Commit first, as a create does, so that a start completes it after a crash."""
        async with self._changes:
            self.plan_partitions(topic, new)
            self._check_disk()
            existing = len(topic.logs)
            enlarge = self._placing.enlargement
            added = new.assignments or ()

            async def enlargement(known: KnownTopic) -> Transaction:
                if known.record.partitions != existing:
                    raise ChangedMeanwhile
                return await enlarge(known, new.total, added)

            await self._change(topic.topic_id, enlargement)
            try:
                await self.follow(topic.name)
            except StorageError as error:
                await self._change(topic.topic_id, lambda known: enlarge(known, existing, ()))
                raise disk_refusal(error) from error
            _log.info("partitions added: topic=%s from=%d to=%d", topic.name, existing, new.total)

    def _config_change(self, known: KnownTopic, key: bytes, own: Mapping[str, str]) -> Transaction:
        guards = [
            metadata.Unchanged(metadata.topic_key(known.name), known.mod_revision),
            config_records.guard(self._metadata.image, key),
        ]
        return Transaction(guards, [config_records.operation(key, own)])

    async def _change(
        self, topic_id: bytes, make: Callable[[KnownTopic], Awaitable[Transaction]]
    ) -> None:
        """Change the topic with that id, as it is stored; make the change anew if another is first.

        RequestError if the topic does not exist any more.
        """
        for _ in range(limits.CHANGE_ATTEMPTS):
            known = self._metadata.image.topics.get(topic_id)
            if known is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            transaction = await make(known)
            if not transaction.operations or await change(self._metadata, *transaction) is not None:
                return
        raise ChangedMeanwhile

    async def _followed(self, name: str) -> Topic | None:
        """Follow a change that is stored; RequestError if this broker's disk fails."""
        try:
            return await self.follow(name)
        except StorageError as error:
            raise disk_refusal(error) from error

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
