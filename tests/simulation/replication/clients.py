"""Producers and consumers of replicated partitions, as coroutines in virtual time."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.core.cluster import election, eligibility
from tests.simulation.replication.batches import produced
from tests.simulation.replication.broker import OUT_OF_RANGE
from tests.simulation.replication.network import CLIENTS
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task

if TYPE_CHECKING:
    from broker.core.cluster.writes import Item
    from tests.simulation.replication.broker import ReplicatedBroker
    from tests.simulation.replication.run import ReplicationSimulation

ALL = -1
TIMEOUT_MS = 1_500
_TIMED_OUT = ("timed out", -1)
_SEQUENCE_ERRORS = frozenset({"SEQUENCE_OUT_OF_ORDER", "SEQUENCE_FENCED"})

Work = Callable[["ReplicatedBroker", Callable[..., None]], None]


async def ask(sim: "ReplicationSimulation", item: "Item", work: Work) -> tuple[Any, ...]:
    """Ask the leader of a partition, or who was it; ("timed out",) if no answer arrives.

    What was answered before an unclean election says nothing after it.
    """
    answer, losses = sim.time.answer(), sim.replicas.losses[item]
    target = sim.leader_for_clients(item)
    broker = sim.broker(target)  # a connection ends with its process

    def arrive() -> None:
        if broker is not None and broker is sim.broker(target):
            broker.process.run(lambda: broker.step(lambda: work(broker, reply)))

    def reply(*result: Any) -> None:
        sim.network.send((target, CLIENTS), lambda: answer.give(result))

    sim.network.send((CLIENTS, target), arrive)
    sim.time.after(TIMEOUT_MS, lambda: answer.give(_TIMED_OUT))
    result: tuple[Any, ...] = await answer
    return result if sim.replicas.losses[item] == losses else _TIMED_OUT


class Producer:
    """Writes batches one by one; with acks=all, each until it is acknowledged."""

    def __init__(self, sim: "ReplicationSimulation", number: int, item: "Item") -> None:
        rng = sim.rng
        self.number = number
        self.item = item
        self.acks = rng.choice((ALL, ALL, ALL, ALL, 1, 0))
        self.is_idempotent = self.acks == ALL and rng.random() < 0.8
        self.is_done = False
        self._sim = sim
        self._epoch = 0
        self._sequence = 0
        self._losses = 0  # of the partition, when the epoch began
        self._pause_ms = rng.choice((20, 100, 400))

    async def run(self) -> None:
        sim, rng = self._sim, self._sim.rng
        count = 0
        while not sim.is_ending:
            count += 1
            records = rng.choice((1, 1, 1, 5, 20))
            await self._send(f"{self.number}-{count}", records)
            self._sequence += records
            await sim.time.sleep(rng.randrange(1, 2 * self._pause_ms))
        self.is_done = True

    async def _send(self, value: str, records: int) -> None:
        sim, acks, item = self._sim, self.acks, self.item
        while True:
            sequence = (self.number, self._epoch, self._sequence) if self.is_idempotent else None
            batch = produced(value, records, sequence)
            error, base_offset = await ask(
                sim,
                item,
                lambda broker, done: broker.write(item, batch, acks, done),  # noqa: B023
            )
            if acks != ALL:
                return
            if not error:
                sim.replicas.heard(item, base_offset, batch)
                return
            if error in _SEQUENCE_ERRORS:
                self._begin_anew(error)
            await sim.time.sleep(sim.rng.randrange(1, 120))

    def _begin_anew(self, error: str) -> None:
        """Send with another epoch: the last batches have been lost, by an unclean election."""
        losses = self._sim.replicas.losses[self.item]
        if losses == self._losses:
            raise Violation(f"{self.item} has lost batches of producer {self.number}: {error}")
        self._losses, self._epoch, self._sequence = losses, self._epoch + 1, 0


class Operator:
    """Gives a partition other replicas from time to time, and accepts losses if it has to.

    The last members may be lost without a fault of their disks: a broker that an unclean election
    made the only one, and that did not learn of its registration before its lease ended, cannot
    tell since when its directory is intact. So losses have to be accepted after all faults, too.
    """

    def __init__(self, sim: "ReplicationSimulation", item: "Item", *, is_lossy: bool) -> None:
        self._sim = sim
        self._item = item
        self._is_lossy = is_lossy
        self._pause_ms = sim.rng.choice((300, 2_000))

    async def run(self) -> None:
        sim, rng = self._sim, self._sim.rng
        while sim.is_faulty:
            await sim.time.sleep(rng.randrange(50, 2 * self._pause_ms))
            usable = [each for each in sim.brokers if each.is_usable]
            if usable and sim.is_faulty:
                await self._change(rng.choice(usable))
        while self._is_lossy and not sim.is_ending:
            await sim.time.sleep(self._pause_ms)
            state = sim.audit.image.state(*self._item)
            if state is not None and not state.isr + state.elr:  # nobody else may elect
                await self._change(sim.brokers[0])

    async def _change(self, broker: "ReplicatedBroker") -> None:
        sim, rng, item = self._sim, self._sim.rng, self._item
        if self._is_lossy:
            found = eligibility.known(broker.image, *item)
            if found is not None and not election.has_leader(found):
                sim.note(f"{broker.name} elects any replica of {item}")
                sim.audit.forced.add(item)
                await self._within_timeout(broker.changes.elect_unclean([item]))
        elif rng.random() < 0.2:
            sim.note(f"{broker.name} cancels the reassignment of {item}")
            await self._within_timeout(broker.changes.reassign({item: None}))
        else:
            count = rng.randint(sim.fewest_replicas, sim.size)
            target = rng.sample(range(1, sim.size + 1), count)
            sim.note(f"{broker.name} reassigns {item}: {target}")
            await self._within_timeout(broker.changes.reassign({item: target}))

    async def _within_timeout(self, change: Coroutine[Any, None, Any]) -> None:
        """Wait for a change that a broker makes; one that is killed never answers."""
        answer = self._sim.time.answer()
        Task(change, answer)
        self._sim.time.after(TIMEOUT_MS, lambda: answer.give(None))
        await answer


class Deleter:
    """Deletes records from time to time (DeleteRecords, retention)."""

    def __init__(self, sim: "ReplicationSimulation", item: "Item") -> None:
        self._sim = sim
        self._item = item

    async def run(self) -> None:
        sim, rng, item = self._sim, self._sim.rng, self._item
        while not sim.is_ending:
            await sim.time.sleep(rng.randrange(100, 4_000))
            part = rng.choice((0.1, 0.5, 1.0))
            await ask(sim, item, lambda broker, done: broker.delete(item, part, done))  # noqa: B023


class Consumer:
    """Reads a partition from the beginning, and asks for its end."""

    def __init__(self, sim: "ReplicationSimulation", item: "Item") -> None:
        self.item = item
        self.position = 0
        self._losses = 0  # of the partition, when it began to read
        self._sim = sim

    async def run(self) -> None:
        sim, rng, item = self._sim, self._sim.rng, self.item
        while True:
            await sim.time.sleep(rng.randrange(20, 300))
            if self._losses < sim.replicas.losses[item]:
                self._losses, self.position = sim.replicas.losses[item], 0
            if rng.random() < 0.5:
                error, data = await ask(
                    sim, item, lambda broker, done: broker.read(item, self.position, done)
                )
                if error == OUT_OF_RANGE and self._losses == sim.replicas.losses[item]:
                    raise Violation(f"{item} ends below {self.position}, which was read")
                if not error:
                    self.position = sim.replicas.read(item, self.position, data)
                if rng.random() < 0.05:
                    self.position = 0
            else:
                known = sim.replicas.latest[item]
                error, offset = await ask(sim, item, lambda broker, done: broker.latest(item, done))
                if not error:
                    sim.replicas.answered_latest(item, offset, known)
