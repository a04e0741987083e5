"""Runs one seed: a period of faults, a period to settle, and the checks at the end."""

from typing import TYPE_CHECKING, Any

from tests.simulation import consumer_members, members
from tests.simulation.assigned_members import AssignedMember
from tests.simulation.consumer_members import Claims, ConsumerMember
from tests.simulation.members import ClassicMember
from tests.simulation.producers import TransactionalProducer, check_outcomes
from tests.simulation.rolling_members import RollingMember
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation
from tests.simulation.virtual_time import Task

if TYPE_CHECKING:
    from collections.abc import Coroutine

FAULTS_MS = 30_000
SETTLE_MS = 75_000  # sessions, rebalances and transactions run out one after the other
LOOK_MS = 5_000


class Cast:
    """The participants of a simulation."""

    def __init__(self, sim: Simulation, parts: str) -> None:
        rng = sim.rng
        parts = parts or rng.choice(
            ("groups", "consumers", "producers", "rolls", "assigned", "all")
        )
        self.sim = sim
        self.classic: list[ClassicMember] = []
        self.consumers: list[ConsumerMember] = []
        self.rolling: list[RollingMember] = []
        self.assigned: list[AssignedMember] = []
        self.producers: list[TransactionalProducer] = []
        if parts in ("groups", "all"):
            self.classic = [
                ClassicMember(sim, "classic", f"m{each}", is_static=rng.random() < 0.3)
                for each in range(rng.randint(2, 3))
            ]
        if parts in ("consumers", "all"):
            claims = Claims()
            self.consumers = [
                ConsumerMember(sim, "consumer", f"n{each}", claims, is_static=rng.random() < 0.3)
                for each in range(rng.randint(2, 3))
            ]
        if parts == "rolls":
            claims = Claims()
            self.rolling = [RollingMember(sim, "rolling", f"r{each}", claims) for each in range(3)]
        if parts in ("assigned", "all"):
            self.assigned = [
                AssignedMember(sim, "assigned", f"v{each}") for each in range(rng.randint(2, 3))
            ]
        if parts in ("producers", "all"):
            self.producers = [
                TransactionalProducer(sim, f"p{each}", is_v2=rng.random() < 0.7)
                for each in range(rng.randint(1, 2))
            ]

    def check(self) -> None:
        """Check what must hold once everything has settled."""
        if self.classic:
            members.check_shares(self.classic)
        if self.consumers:
            consumer_members.check_shares([each.owned for each in self.consumers])
        if self.rolling:
            consumer_members.check_shares([each.owned for each in self.rolling])
        if self.assigned:
            members.check_shares(self.assigned)
        for producer in self.producers:
            check_outcomes(self.sim, producer)
        self.sim.audit.check_idle()

    def has_settled(self) -> bool:
        """Return whether it holds already."""
        try:
            self.check()
        except Violation:
            return False
        return True


def run(seed: int, parts: str = "") -> Simulation:
    """Run a seed to its end.

    Args:
        seed: determines everything that happens.
        parts: the participants: groups, consumers, producers, rolls, assigned or all; by
            default the seed decides.

    Raises:
        Violation: with the seed and the last events.
    """
    sim = Simulation(seed)
    cast = Cast(sim, parts)
    try:
        _run(sim, cast)
    except Violation as violation:
        raise Violation(
            f"{violation}\nseed {seed}, the last events:\n" + "\n".join(sim.events)
        ) from violation
    return sim


def _run(sim: Simulation, cast: Cast) -> None:
    sim.broker.start()
    actors: list[Coroutine[Any, None, Any]] = [sim.trouble(), sim.wander(), sim.watch()]
    actors += [each.live() for each in cast.classic]
    actors += [each.live() for each in cast.consumers]
    actors += [each.live() for each in cast.rolling]
    actors += [each.live() for each in cast.assigned]
    actors += [each.live() for each in cast.producers]
    for actor in actors:
        Task(actor, sim.time.answer())
    sim.network.loss_rate = sim.rng.choice((0.0, 0.02, 0.1))
    sim.network.repeat_rate = sim.rng.choice((0.0, 0.1))
    sim.time.run_until(FAULTS_MS)
    sim.is_faulty = False
    sim.network.loss_rate = sim.network.repeat_rate = 0.0
    sim.disk.fail_rate = sim.disk.break_rate = 0.0
    sim.note("--- no more faults")
    for end_ms in range(FAULTS_MS + LOOK_MS, FAULTS_MS + SETTLE_MS, LOOK_MS):
        sim.time.run_until(end_ms)
        if cast.has_settled():
            return
    cast.check()
