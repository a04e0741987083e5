"""Both coordinators and the logs of a topic, for the tests of transactions."""

import asyncio

from broker.core.coordination.partitions import Environment
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    Producer,
)
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.core.transactions.other_brokers import OtherBrokers
from broker.core.transactions.records import (
    TopicPartition,
    TransactionState,
)
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import ClientLog, MemoryLog

FIRST, SECOND = ("t", 0), ("t", 1)
OFFSETS = (OFFSETS_TOPIC, 0)
NONE = ErrorCode.NONE


class Broker:
    """Both coordinators, the logs of a topic, a stopped clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, others: OtherBrokers | None = None) -> None:
        self.loop = loop
        self.others = others
        self.is_coordinator = True
        self.has_offsets = True  # a log of OFFSETS, although it is not in `logs`
        self.clock = ManualClock()
        self.state = MemoryLog()
        self.logs: dict[TopicPartition, ClientLog] = {FIRST: ClientLog(), SECOND: ClientLog()}
        self.offsets = MemoryLog()
        self.ids = iter(range(1, 1_000))
        self.restart()

    def restart(self) -> None:
        """Return coordinators that find the logs as they are."""
        for log in self.logs.values():
            log.admitted.clear()
        self.groups = GroupCoordinator(
            self.environment(self.offsets), topics=FakeTopics(), partition_count=1
        )
        self.transactions = TransactionCoordinator(
            self.environment(self.state),
            self.find,
            self.groups,
            partition_count=1,
            others=self.others,
        )
        self.transactions.expect([0])

    def recover(self) -> None:
        """Recover the logs and finish the work that follows."""
        self.recover_logs()
        self.tick()

    def recover_logs(self) -> None:
        """Recover the logs."""
        for place, log in self.logs.items():
            if log.open_transactions:
                self.transactions.suspect(place)
        self.transactions.recovered(0, is_empty=not self.state.log_end_offset)

    def environment(self, log: MemoryLog) -> Environment:
        return Environment(
            lambda _: log,
            self.loop.create_future,
            self.clock,
            lambda _: None,
            is_led=lambda _: self.is_coordinator,
        )

    def find(self, place: TopicPartition) -> ClientLog | None:
        if place == OFFSETS and self.has_offsets:
            return ClientLog()
        return self.logs.get(place)

    def tick(self, ms: int = 0) -> None:
        self.clock.advance(ms)
        while self.transactions.tick() <= self.clock.monotonic_ms():
            pass

    def init(self, name: str = "x") -> Producer:
        request = InitRequest(name, 60_000, next(self.ids))
        error, producer_id, epoch = self.transactions.init(request).result()
        assert error is NONE
        return Producer(name, producer_id, epoch)

    def add(self, producer: Producer, *places: TopicPartition) -> asyncio.Future[ErrorCode]:
        return self.transactions.add(AddRequest(producer, places))

    def begin(self, *places: TopicPartition, name: str = "x") -> Producer:
        """A producer that has written into partitions."""
        producer = self.init(name)
        assert self.add(producer, *places).result() is NONE
        for place in places:
            assert place == OFFSETS or self.logs[place].send(*producer[1:])
        return producer

    def end(self, producer: Producer, *, is_commit: bool = True) -> asyncio.Future[EndResponse]:
        return self.transactions.end(EndRequest(producer, is_commit))

    def state_of(self, name: str = "x") -> TransactionState:
        return self.transactions.describe(name).result().state
