"""Producers of both protocols (KIP-98, KIP-890): they write, commit offsets, end, and fail."""

from asyncio import Future
from enum import Enum
from functools import partial
from typing import NamedTuple

from broker.core.groups.commands.offsets import CommitRequest, CommitResponse, OffsetToCommit
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
)
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode
from tests.simulation.audit import Intent, visible_values
from tests.simulation.broker import SimulatedBroker
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation

PLACES: tuple[TopicPartition, ...] = (("synced", 0), ("synced", 1), ("cached", 0), ("cached", 1))
RETRIES_MAX = 60
_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Outcome(Enum):
    """What a producer knows of the end of its transaction."""

    NOT_COMMITTED = "nobody asked to commit it"
    UNKNOWN = "it asked to commit it, and heard nothing"
    COMMITTED = "it was told that it is committed"


class Written(NamedTuple):
    """One record of a transaction."""

    value: str
    place: TopicPartition


class Transaction:
    """What a producer did in one transaction."""

    def __init__(self, number: int) -> None:
        self.number = number  # larger than that of every earlier one
        self.acknowledged: list[Written] = []
        self.sent: list[Written] = []
        self.has_offset = False
        self.outcome = Outcome.NOT_COMMITTED


class Ended(Exception):  # noqa: N818 (it is no error)
    """The process ends here."""


class TransactionalProducer:
    """One transactional id: a process, and its successor after its end, or before."""

    def __init__(self, sim: Simulation, name: str, *, is_v2: bool) -> None:
        self.transactions: list[Transaction] = []
        self.group_id = f"offsets-of-{name}"
        self._sim = sim
        self._name = name
        self._is_v2 = is_v2
        self._timeout_ms = sim.rng.choice((4_000, 9_000))

    async def live(self) -> None:
        """Run process after process; now and then two at once, the older one a zombie."""
        while self._sim.is_faulty:
            await self._sim.time.sleep(self._sim.rng.randrange(2_000))
            process = _Process(self._sim, self._name, self, self._timeout_ms, is_v2=self._is_v2)
            try:
                await process.run()
            except Ended as end:
                self._sim.note(f"{self._name} ended: {end}")


class _Process:
    """Run a producer from its InitProducerId on."""

    def __init__(
        self,
        sim: Simulation,
        name: str,
        owner: TransactionalProducer,
        timeout_ms: int,
        *,
        is_v2: bool,
    ) -> None:
        self._sim = sim
        self._name = name
        self._owner = owner
        self._timeout_ms = timeout_ms
        self._is_v2 = is_v2
        self._producer = Producer(name, -1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._is_doubtful = False  # a batch may or may not be there: only a new epoch helps
        self._is_careless = False  # it has sent what it did not wait for

    async def run(self) -> None:
        """Run transaction after transaction."""
        await self._init()
        while self._sim.is_faulty:
            transaction = Transaction(self._sim.fresh_number())
            self._owner.transactions.append(transaction)
            await self._write(transaction)
            await self._maybe_fail()
            await self._end(transaction)
            await self._sim.time.sleep(self._sim.rng.randrange(1_500))

    async def _maybe_fail(self) -> None:
        sim = self._sim
        if sim.happens(0.05):
            raise Ended("crash")
        if sim.happens(0.05):
            await sim.time.sleep(sim.rng.randrange(15_000))
        if sim.happens(0.04):  # It continues as a zombie while its successor begins.
            rival = _Process(sim, self._name, self._owner, self._timeout_ms, is_v2=self._is_v2)
            try:
                await rival.run_once()
            except Ended as end:
                sim.note(f"rival of {self._name} ended: {end}")

    async def run_once(self) -> None:
        """Initialise the id, write one transaction, and leave it open or end it."""
        await self._init()
        transaction = Transaction(self._sim.fresh_number())
        self._owner.transactions.append(transaction)
        await self._write(transaction)
        if self._sim.rng.random() < 0.5:
            await self._end(transaction)

    # ---- epochs ----------------------------------------------------------------------------------

    async def _init(self) -> None:
        """Initialise the id, or get its next epoch (KIP-360)."""
        sim = self._sim
        for _ in range(RETRIES_MAX):
            request = InitRequest(self._name, self._timeout_ms, -1, *self._producer[1:])
            answer: InitResponse | None = await sim.network.ask(partial(self._take_id, request))
            sim.note(f"init {self._producer}: {answer}")
            if answer is None:
                self._producer = (
                    Producer(self._name, -1, -1) if sim.happens(0.5) else (self._producer)
                )
            elif answer.error is ErrorCode.NONE:
                self._hold(answer.producer_id, answer.producer_epoch)
                return
            elif answer.error in _FENCED:
                raise Ended("fenced at init")
            await sim.time.sleep(100)
        raise Ended("no init")

    def _take_id(self, request: InitRequest, broker: SimulatedBroker) -> Future[InitResponse]:
        self._sim.audit.ages.asks_to_end(self._name)
        return broker.transactions.init(request._replace(fresh_producer_id=broker.producer_id()))

    def _hold(self, producer_id: int, epoch: int) -> None:
        self._sim.audit.holds(self._name, producer_id, epoch)
        if (producer_id, epoch) != self._producer[1:]:
            self._sequences = {}
        self._producer = Producer(self._name, producer_id, epoch)
        self._is_doubtful = False

    # ---- writing ---------------------------------------------------------------------------------

    async def _write(self, transaction: Transaction) -> None:
        sim = self._sim
        places = sim.rng.sample(PLACES, sim.rng.randint(1, 3))
        if not self._is_v2:
            await self._add(tuple(places))
        for place in places:
            for _ in range(sim.rng.randint(1, 2)):
                if not self._is_doubtful:
                    await self._produce(transaction, place)
            if sim.happens(0.03):
                await sim.time.sleep(sim.rng.randrange(15_000))
        if not self._is_doubtful and sim.rng.random() < 0.4:
            await self._commit_offset(transaction)
        if not self._is_doubtful and sim.happens(0.1):
            self._produce_carelessly(transaction, places[0])

    async def _add(self, places: tuple[TopicPartition, ...]) -> None:
        request = AddRequest(self._producer, places)
        for _ in range(RETRIES_MAX):
            error: ErrorCode | None = await self._sim.network.ask(
                lambda broker: broker.transactions.add(request)
            )
            if error is ErrorCode.NONE:
                return
            self._check_fenced(error, "add")
            await self._sim.time.sleep(50)
        raise Ended("no add")

    async def _produce(self, transaction: Transaction, place: TopicPartition) -> None:
        sim = self._sim
        producer, is_v2 = self._producer, self._is_v2
        sequence = self._sequences.get(place, 0)
        value = f"{self._name}/{transaction.number}/{sim.fresh_number()}"
        self._sequences[place] = sequence + 1
        transaction.sent.append(Written(value, place))
        for _ in range(8):
            error: ErrorCode | None = await sim.network.ask(
                lambda broker: broker.produce(producer, place, sequence, value, is_v2=is_v2)
            )
            sim.note(f"produce {value} {place} {producer[1:]} {sequence}: {error and error.name}")
            if error is ErrorCode.NONE:
                transaction.acknowledged.append(Written(value, place))
                sim.audit.is_produced(value)
                return
            self._check_fenced(error, "produce")
            if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE):
                break  # A power cut lost earlier ones, or the transaction has ended.
            await sim.time.sleep(100)
        self._is_doubtful = True

    def _produce_carelessly(self, transaction: Transaction, place: TopicPartition) -> None:
        """Send a batch and forget it: it may arrive when the transaction ends, or has."""
        sim = self._sim
        producer, is_v2 = self._producer, self._is_v2
        sequence = self._sequences.get(place, 0)
        value = f"{self._name}/{transaction.number}/{sim.fresh_number()}"
        transaction.sent.append(Written(value, place))
        sim.note(f"produce carelessly {value} {place}")
        # Until it is accepted or refused no other batch can be written with its sequence.
        self._sequences[place] = sequence + 1
        self._is_careless = True

        def deliver() -> None:
            if sim.broker.is_up:
                sim.broker.spawn(sim.broker.produce(producer, place, sequence, value, is_v2=is_v2))

        for delay_ms in (sim.rng.randrange(10), sim.rng.randrange(60)):
            sim.time.after(delay_ms, deliver)

    async def _commit_offset(self, transaction: Transaction) -> None:
        sim = self._sim
        producer, is_v2 = self._producer, self._is_v2
        commit_id = f"t{transaction.number}"
        request = CommitRequest(
            self._owner.group_id,
            "",
            None,
            -1,
            (OffsetToCommit("synced", 0, transaction.number, -1, commit_id),),
            producer[1:],
        )
        sim.audit.intents[commit_id] = Intent(self._owner.group_id, "", -1)
        if not is_v2:
            place = await self._offsets_place()
            await self._add((place,))
        for _ in range(8):
            answer: CommitResponse | None = await sim.network.ask(
                lambda broker: broker.commit_in_transaction(producer, request, is_v2=is_v2),
                may_repeat=is_v2,
            )
            error = None if answer is None else answer.errors[0]
            sim.note(f"commit {commit_id} in transaction: {error and error.name}")
            if error is ErrorCode.NONE:
                transaction.has_offset = True
                sim.audit.is_committed(commit_id)
                return
            self._check_fenced(error, "commit")
            await sim.time.sleep(100)
        self._is_doubtful = True

    async def _offsets_place(self) -> TopicPartition:
        return OFFSETS_TOPIC, self._sim.broker.groups.partition_for(self._owner.group_id)

    # ---- the end ---------------------------------------------------------------------------------

    async def _end(self, transaction: Transaction) -> None:
        sim = self._sim
        is_commit = not self._is_doubtful and sim.rng.random() < 0.75
        if not is_commit and not self._is_v2 and self._is_doubtful:
            await self._init()  # Its epoch fences requests in flight.
            return
        if is_commit:
            transaction.outcome = Outcome.UNKNOWN
        request = EndRequest(self._producer, is_commit, self._is_v2)
        for _ in range(RETRIES_MAX):
            answer: EndResponse | None = await sim.network.ask(
                partial(self._ask_to_end, request),
                may_repeat=self._is_v2,
            )
            sim.note(f"end {self._producer} {transaction.number} commit={is_commit}: {answer}")
            if answer is not None and answer.error is ErrorCode.NONE:
                if is_commit:
                    transaction.outcome = Outcome.COMMITTED
                await self._go_on(answer)
                return
            self._check_fenced(None if answer is None else answer.error, "end")
            if answer is not None and answer.error is ErrorCode.INVALID_TXN_STATE:
                raise Ended("the transaction is over")
            await sim.time.sleep(50)
        raise Ended("no end")

    def _ask_to_end(self, request: EndRequest, broker: SimulatedBroker) -> Future[EndResponse]:
        self._sim.audit.ages.asks_to_end(self._name)
        return broker.transactions.end(
            request._replace(fresh_producer_id=broker.producer_id() if self._is_v2 else -1)
        )

    async def _go_on(self, answer: EndResponse) -> None:
        if self._is_v2:
            self._hold(answer.producer_id, answer.producer_epoch)
        elif self._is_careless:
            await self._init()
        self._is_careless = self._is_doubtful = False

    def _check_fenced(self, error: ErrorCode | None, what: str) -> None:
        if error in _FENCED:
            raise Ended(f"fenced at {what}")


def check_outcomes(sim: Simulation, producer: TransactionalProducer) -> None:
    """Check that each transaction is atomic: everything acknowledged is read once, or nothing."""
    visible = {place: visible_values(sim.broker.logs[place]) for place in PLACES}
    committed = 0
    for transaction in producer.transactions:
        seen = [
            visible[each.place].count(each.value)
            for each in transaction.acknowledged
            if each.value not in sim.audit.dropped
        ]
        ghosts = [each for each in transaction.sent if each.value in visible[each.place]]
        outcome = transaction.outcome
        if outcome is Outcome.NOT_COMMITTED and ghosts:
            raise Violation(f"{ghosts} are read, and {outcome.value}")
        if outcome is Outcome.COMMITTED and seen != [1] * len(seen):
            raise Violation(f"{seen} of {transaction.acknowledged} are read, and {outcome.value}")
        if outcome is Outcome.UNKNOWN and len(set(seen)) > 1:
            raise Violation(f"{transaction.acknowledged} is torn: {seen}")
        is_committed = outcome is Outcome.COMMITTED or (
            outcome is Outcome.UNKNOWN and bool(seen) and seen[0] == 1
        )
        if is_committed and transaction.has_offset:
            committed = transaction.number
        elif outcome is Outcome.NOT_COMMITTED:
            _check_not_committed(sim, producer, transaction)
    found = _committed(sim, producer)
    if found < committed:
        raise Violation(f"{producer.group_id} is at {found}, and {committed} was committed")


def _check_not_committed(
    sim: Simulation, producer: TransactionalProducer, transaction: Transaction
) -> None:
    if _committed(sim, producer) == transaction.number:
        raise Violation(f"the offset of {transaction.number} counts, which was not committed")


def _committed(sim: Simulation, producer: TransactionalProducer) -> int:
    shard = next(
        (each for each in sim.broker.groups.shards() if producer.group_id in each.groups),
        None,
    )
    topics = {} if shard is None else shard.offsets.of_group(producer.group_id)
    committed = topics.get("synced", {}).get(0)
    return 0 if committed is None else committed.offset
