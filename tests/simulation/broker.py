"""The broker of a simulation: the real coordinators over simulated logs, which outlive it."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast
from unittest.mock import patch

from broker.core.coordination.partitions import Environment
from broker.core.groups.commands.offsets import CommitRequest, CommitResponse
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import ConsumerSettings, GroupSettings
from broker.core.logs.log import Log
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions.commands import Producer
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.core.transactions.records import TopicPartition
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode
from tests.simulation.clock import ClockKeeper, MachineClock
from tests.simulation.logs import Disk, SimulatedLog
from tests.simulation.virtual_time import Answer, Task, VirtualTime
from tests.support.fakes import FakeTopics

COORDINATOR_PARTITIONS = 2
SESSION_MS = 12_000
GROUP_VALUES = {
    "consumer.session.timeout.ms": SESSION_MS,
    "consumer.heartbeat.interval.ms": 3_000,
}
# Kafka's are longer than a simulation: here state expires within one.
OFFSETS_EXPIRY_INTERVAL_MS = 4_000
TRANSACTIONS_EXPIRY_INTERVAL_MS = 4_000


class SimulatedBroker:
    """Starts, stops, dies and starts again over the same logs."""

    def __init__(self, rng: Random, time: VirtualTime, disk: Disk) -> None:
        self.is_up = False
        self.machine = MachineClock(time)
        self.clock_keeper = ClockKeeper(time, self.machine, disk)
        self.topics = FakeTopics()
        self.logs: dict[TopicPartition, SimulatedLog] = {
            (topic, number): SimulatedLog(topic, number, disk)
            for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
            for number in range(COORDINATOR_PARTITIONS)
        }
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self._rng = rng
        self._time = time
        self._disk = disk
        self._alarms: list[_Alarm] = []
        self._tasks: list[Task] = []
        self._ids = 0

    def create_topic(self, name: str, partitions: int, *, is_os: bool = False) -> None:
        """Create a topic, whose partitions' logs are durable before, or after, they are visible."""
        self.topics.put(name, partitions)
        for number in range(partitions):
            self.logs[name, number] = SimulatedLog(name, number, self._disk, is_os=is_os)

    # ---- starts and stops ------------------------------------------------------------------------

    def start(self) -> None:
        """Make the coordinators, and let logs be recovered one by one."""
        self.clock_keeper.start()
        with patch.multiple(
            limits,
            OFFSETS_EXPIRY_INTERVAL_MS=OFFSETS_EXPIRY_INTERVAL_MS,
            TRANSACTIONS_EXPIRY_INTERVAL_MS=TRANSACTIONS_EXPIRY_INTERVAL_MS,
        ):
            self._make_coordinators()
        self.groups.expect(range(COORDINATOR_PARTITIONS))
        self.transactions.expect(range(COORDINATOR_PARTITIONS))
        self.is_up = True
        alarms = self._alarms
        for log in self.logs.values():
            log.is_loading = True
            self._time.after(
                self._rng.randrange(300),
                lambda log=log: self._recovered(log) if self._alarms is alarms else None,  # type: ignore[misc]
            )

    def _make_coordinators(self) -> None:
        clock = self.clock_keeper.clock
        groups_alarm = _Alarm(self._time, clock, lambda: self.groups.tick())  # noqa: PLW0108 (there is none yet)
        transactions_alarm = _Alarm(self._time, clock, lambda: self.transactions.tick())  # noqa: PLW0108 (likewise)
        self._alarms = [groups_alarm, transactions_alarm]
        self.groups = GroupCoordinator(
            self._environment(OFFSETS_TOPIC, groups_alarm),
            settings=GroupSettings(
                initial_rebalance_delay_ms=1_000,
                consumer=ConsumerSettings(group_setting=lambda _group, name: GROUP_VALUES[name]),
            ),
            topics=self.topics,
            partition_count=COORDINATOR_PARTITIONS,
            fresh_id=self._fresh_id,
        )
        self.transactions = TransactionCoordinator(
            self._environment(TRANSACTIONS_TOPIC, transactions_alarm),
            self._log,
            self.groups,
            partition_count=COORDINATOR_PARTITIONS,
        )

    def crash(self, *, is_power_cut: bool) -> dict[TopicPartition, list[Any]]:
        """End at once; what each log has lost by it."""
        self.is_up = False
        self.clock_keeper.stop()
        for alarm in self._alarms:
            alarm.stop()
        self._alarms = []
        for task in self._tasks:
            task.kill()
        self._tasks = []
        return {place: log.crash(is_power_cut=is_power_cut) for place, log in self.logs.items()}

    @property
    def has_failed(self) -> bool:
        """Return whether a log is offline, for which its operator restarts the broker."""
        return any(log.is_offline for log in self.logs.values())

    def look(self) -> None:
        """Notify waiters that a log has gone offline."""
        for alarm in self._alarms:
            alarm.ring()

    def _environment(self, topic: str, alarm: "_Alarm") -> Environment:
        return Environment(
            lambda number: self.logs[topic, number],
            self._time.create_future,
            self.clock_keeper.clock,
            alarm.wake_at,
        )

    def _log(self, place: TopicPartition) -> Log | None:
        return cast("Log | None", self.logs.get(place))

    def _recovered(self, log: SimulatedLog) -> None:
        log.is_loading = False
        topic, number = log.place
        is_empty = log.log_end_offset == 0
        if topic == OFFSETS_TOPIC:
            self.groups.recovered(number, is_empty=is_empty)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.recovered(number, is_empty=is_empty)
        if log.open_transactions:
            self.transactions.suspect(log.place)

    def _fresh_id(self) -> str:
        return str(self.producer_id())

    def producer_id(self) -> int:
        """Return an unused id."""
        self._ids += 1
        return self._ids

    # ---- the work of handlers
    # ------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, None, Any]) -> Answer[Any]:
        """Carry out a request that takes several steps."""
        answer = self._time.answer()
        self._tasks = [task for task in self._tasks if task.is_alive]
        self._tasks.append(Task(work, answer))
        return answer

    async def produce(
        self, producer: Producer, place: TopicPartition, sequence: int, value: str, *, is_v2: bool
    ) -> ErrorCode:
        """Do what the Produce handler does: ask the coordinator once, then the log knows."""
        log = self.logs[place]
        if log.is_loading:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        _, producer_id, epoch = producer
        if not log.admits_transaction(producer_id, epoch):
            errors = await self.transactions.admit(*producer, [place], adds_implicitly=is_v2)
            if errors[place] is not ErrorCode.NONE:
                return errors[place]
        error, end_offset = log.produce(producer_id, epoch, sequence, value)
        if error is not ErrorCode.NONE:
            return error
        durable: Answer[bool] = self._time.answer()
        log.when_durable(end_offset, durable.give)
        return ErrorCode.NONE if await durable else ErrorCode.KAFKA_STORAGE_ERROR

    async def commit_in_transaction(
        self, producer: Producer, request: CommitRequest, *, is_v2: bool
    ) -> CommitResponse:
        """As the TxnOffsetCommit handler."""
        place = self.transactions.offsets_partition(request.group_id)
        errors = await self.transactions.admit(*producer, [place], adds_implicitly=is_v2)
        error = errors[place]
        if error is ErrorCode.NONE and not self.transactions.has(producer, place):
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is not ErrorCode.NONE:
            return CommitResponse((error,) * len(request.offsets))
        return await self.groups.commit_offsets(request)


class _Alarm:
    """Calls a coordinator's tick at the earliest requested time."""

    def __init__(self, time: VirtualTime, clock: Clock, tick: Callable[[], int]) -> None:
        self._time = time
        self._clock = clock
        self._tick = tick
        self._due_ms: int | None = None
        self._is_stopped = False

    def wake_at(self, monotonic_ms: int) -> None:
        if self._due_ms is not None and self._due_ms <= monotonic_ms:
            return
        self._due_ms = due_ms = monotonic_ms
        delay_ms = max(0, monotonic_ms - self._clock.monotonic_ms())
        self._time.after(delay_ms, lambda: self.ring() if self._due_ms == due_ms else None)

    def ring(self) -> None:
        if not self._is_stopped:
            self._due_ms = None
            self.wake_at(self._tick())

    def stop(self) -> None:
        self._is_stopped = True
        self._due_ms = None
