"""Wiring of the group and transaction coordinators: internal topics, timers, loading at a start.

The first command of a coordinator creates its internal topic, and is answered with a retriable
error. After a start each coordinator loads a partition when its log is recovered; the transaction
coordinator checks the open transactions of recovered logs. A log with several replicas is loaded
when this broker leads it, and has all that may have been acknowledged before: its high watermark
has reached the beginning of its leader epoch.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker.core.configs.group_configs import GroupConfigs
from broker.core.coordination.partitions import Environment
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import ConsumerSettings, GroupSettings, MigrationPolicy
from broker.core.logs.log import TransactionalLog
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.core.topics.topics import Topics
from broker.core.transactions.commands import TransactionSettings
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.core.transactions.records import TopicPartition
from broker.model.clock import Clock
from broker.model.config import Config
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import GROUPS_MEMORY_SHARE, LOAD_RETRY_MS
from broker.server.garbage_collection import CollectorPause
from broker.server.memory import memory_bytes

if TYPE_CHECKING:
    from broker.core.transactions.other_brokers import OtherBrokers

_log = logging.getLogger(__name__)

# From what finds a log of this broker, and the partition of a transactional id.
MakeOtherBrokers: TypeAlias = Callable[
    [Callable[[TopicPartition], TransactionalLog | None], Callable[[str], int]], "OtherBrokers"
]


class Coordinators:
    """Both coordinators of this broker."""

    def __init__(  # noqa: PLR0913, PLR0917 (what both coordinators need)
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        topics: Topics,
        group_configs: GroupConfigs,
        make_other_brokers: MakeOtherBrokers | None = None,
        is_named: Callable[[str, int], bool] = lambda *_: False,
    ) -> None:
        """Make them; nothing is opened yet.

        `make_other_brokers` and `is_named` (of Environment, by topic and partition) are the
        cluster's; without them this broker is standalone.
        """
        self._config = config
        self._topics = topics
        self._offsets_topic = _InternalTopic(OFFSETS_TOPIC, topics, is_named)
        self._state_topic = _InternalTopic(TRANSACTIONS_TOPIC, topics, is_named)
        self._alarms = [
            _Alarm(loop, clock, lambda: self._then_look(self.groups.tick())),
            _Alarm(loop, clock, lambda: self._then_look(self.transactions.tick())),
        ]
        groups_alarm, transactions_alarm = self._alarms
        self.groups = GroupCoordinator(
            self._offsets_topic.environment(loop, clock, groups_alarm),
            settings=_group_settings(config, group_configs),
            topics=topics,
            partition_count=config.integer("offsets.topic.num.partitions"),
        )
        others = None
        if make_other_brokers is not None:
            others = make_other_brokers(self._log_of, self._state_partition_for)
        self.transactions = TransactionCoordinator(
            self._state_topic.environment(loop, clock, transactions_alarm),
            self._log_of,
            self.groups,
            settings=TransactionSettings(
                timeout_ms_max=config.integer("transaction.max.timeout.ms"),
                expiration_ms=config.integer("transactional.id.expiration.ms"),
            ),
            partition_count=config.integer("transaction.state.log.num.partitions"),
            others=others,
        )
        self._collector_pause = CollectorPause()
        topics.when_deleted(self.groups.topic_deleted)
        topics.when_gained(self._gained)
        topics.when_opened(self._opened)
        topics.when_lost(self._lost)

    def expect(self) -> None:
        """Register existing partitions, whose logs are still being recovered."""
        for name, coordinator in (
            (OFFSETS_TOPIC, self.groups),
            (TRANSACTIONS_TOPIC, self.transactions),
        ):
            topic = self._topics.get(name)
            if topic is not None:
                coordinator.expect(log.partition for log in topic.led_logs)

    def _gained(self, topic: str, partition: int) -> None:
        if topic == OFFSETS_TOPIC:
            self.groups.expect([partition])
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.expect([partition])

    def _opened(self, log: PartitionLog) -> None:
        """Begin to load a partition that another broker has coordinated before."""
        self._gained(log.topic, log.partition)
        self.log_is_ready(log)

    def _lost(self, topic: str, partition: int) -> None:
        if topic == OFFSETS_TOPIC:
            self.groups.resign(partition)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.resign(partition)

    def log_is_ready(self, log: PartitionLog) -> None:
        """Begin to load the partition of a recovered log that this broker leads."""
        if log.is_follower:
            return
        if not log.is_offline and not log.is_caught_up_leader:
            log.when_durable(log.epoch_start, partial(self._has_caught_up, log))
            return
        # A log whose files cannot be used counts as not empty: its content is unknown.
        is_empty = log.log_end_offset == 0 and not log.is_offline
        if log.topic == OFFSETS_TOPIC:
            self.groups.recovered(log.partition, is_empty=is_empty)
        elif log.topic == TRANSACTIONS_TOPIC:
            self.transactions.recovered(log.partition, is_empty=is_empty)
        if not is_empty and not log.is_offline and log.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self._collector_pause.begin()
        if log.open_transactions:
            self.transactions.suspect((log.topic, log.partition))

    def _has_caught_up(self, log: PartitionLog, is_durable: bool) -> None:  # noqa: FBT001 (a callback of the native log)
        """Load a partition after all; otherwise the log is not led any more, or has failed.

        Or too few replicas are in sync: it waits again.
        """
        if is_durable or log.is_offline or (log.lacks_replicas and not log.is_released):
            self.log_is_ready(log)

    def tick(self) -> None:
        """Tick both now: a log has gone offline, and waiting requests have to be refused."""
        for alarm in self._alarms:
            alarm.ring()

    def close(self) -> None:
        """Stop serving."""
        for alarm in self._alarms:
            alarm.stop()
        self.transactions.close()
        self.groups.close()

    def _then_look(self, next_ms: int) -> int:
        if self._collector_pause.is_held and not (
            self.groups.is_loading or self.transactions.is_loading
        ):
            self._collector_pause.end()
        return next_ms

    def _state_partition_for(self, transactional_id: str) -> int:
        return self.transactions.partition_for(transactional_id)

    def _log_of(self, topic_partition: TopicPartition) -> PartitionLog | None:
        name, partition = topic_partition
        topic = self._topics.get(name)
        log = topic.log(partition) if topic else None
        return log if isinstance(log, PartitionLog) else None


class _Alarm:
    """Calls a coordinator's tick at the earliest time that was asked for."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def wake_at(self, monotonic_ms: int) -> None:
        if self._timer is not None:
            if self._due_ms <= monotonic_ms:
                return
            self._timer.cancel()
        self._due_ms = monotonic_ms
        delay_ms = max(0, monotonic_ms - self._clock.monotonic_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self.ring)

    def ring(self) -> None:
        self.stop()
        next_ms = self._clock.monotonic_ms() + LOAD_RETRY_MS  # if the tick fails
        try:
            next_ms = self._tick()
        finally:
            self.wake_at(next_ms)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _InternalTopic:
    """The logs of an internal topic, which is created on first use."""

    def __init__(self, name: str, topics: Topics, is_named: Callable[[str, int], bool]) -> None:
        self._name = name
        self._topics = topics
        self._is_named = is_named
        self._making: asyncio.Future[Topic] | None = None

    def environment(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, alarm: _Alarm
    ) -> Environment:
        """Return what the topic's coordinator needs."""
        return Environment(
            self.log,
            loop.create_future,
            clock,
            alarm.wake_at,
            self._partition_count,
            self._is_led,
            partial(self._is_named, self._name),
        )

    def _is_led(self, partition: int) -> bool:
        topic = self._topics.get(self._name)
        log = None if topic is None else topic.log(partition)
        return topic is None or (log is not None and log.is_led)

    def _partition_count(self) -> int | None:
        topic = self._topics.get(self._name)
        return None if topic is None else topic.partition_count

    def log(self, partition: int) -> PartitionLog:
        topic = self._topics.get(self._name)
        if topic is None and self._making is None:
            self._making = asyncio.ensure_future(self._topics.get_or_create(self._name))
            self._making.add_done_callback(self._made)
        log = topic.log(partition) if topic else None
        if not isinstance(log, PartitionLog):
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no {self._name} yet")
        return log

    def _made(self, made: asyncio.Future[Topic]) -> None:
        self._making = None
        error = None if made.cancelled() else made.exception()
        if isinstance(error, RequestError) and error.code is ErrorCode.DISK_FULL:
            _log.warning(
                "an internal topic is created when disk space is free: topic=%s reason=%s",
                self._name,
                error,
            )
        elif error is not None:
            _log.error("an internal topic cannot be created: topic=%s error=%s", self._name, error)


def _group_settings(config: Config, group_configs: GroupConfigs) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min=config.integer("group.min.session.timeout.ms"),
        session_timeout_ms_max=config.integer("group.max.session.timeout.ms"),
        members_max=config.integer("group.max.size"),
        offset_metadata_bytes_max=config.integer("offset.metadata.max.bytes"),
        memory_bytes_max=memory_bytes() // GROUPS_MEMORY_SHARE,
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        consumer=ConsumerSettings(
            group_setting=group_configs.setting,
            members_max=config.integer("group.consumer.max.size"),
            assignors=config.words("group.consumer.assignors"),
            migration=MigrationPolicy(config.text("group.consumer.migration.policy")),
        ),
    )
