"""Members of groups whose partitions the broker assigns at once, as V1's clients are."""

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedError,
    AssignedJoin,
    AssignedProtocol,
    AssignedResponse,
    Assignor,
)
from tests.simulation.audit import Intent
from tests.simulation.leases import Lease
from tests.simulation.members import PARTITIONS, TOPIC, Commits
from tests.simulation.simulation import Simulation

HEARTBEAT_MS = 2_000
SESSION_MS = 10_000
_RETRIABLE = (AssignedError.LOADING, AssignedError.UNAVAILABLE)


class AssignedMember:
    """One place in an assigned group: a process, and its successor after its end."""

    def __init__(self, sim: Simulation, group_id: str, name: str) -> None:
        self.assigned: set[int] = set()
        self.generation = -1
        self.name = name
        self._left_as = ""  # a leave may arrive late, and be taken for one of the next process
        self._lease = Lease(SESSION_MS)  # every response has its whole assignment
        self._sim = sim
        self._group_id = group_id
        self._member_id = name
        self._commits = Commits(sim, group_id)  # of which it knows only the next offset

    async def live(self) -> None:
        """Run process after process, some of which forget their member id."""
        while True:
            await self._sim.time.sleep(self._sim.rng.randrange(3_000))
            if self._sim.rng.random() < 0.5:
                self._member_id = f"{self.name}-{self._sim.fresh_number()}"
            while await self._join():
                if not await self._poll():
                    break
            self.assigned = set()
            self._sim.note(f"{self.name} ended")

    async def _join(self) -> bool:
        """Join until there is a generation; return False if the process ends."""
        sim = self._sim
        self.assigned, self._commits.positions = set(), {}
        while not sim.happens(0.02):
            request = AssignedJoin(
                AssignedProtocol.V1,
                self._group_id,
                TOPIC,
                self._member_id,
                PARTITIONS,
                sim.rng.choice(list(Assignor)) if sim.happens(0.1) else None,
            )
            sent_ms = sim.time.now_ms
            answer = await self._ask_join(request)
            sim.note(f"join {self._member_id}: {answer and answer[:3]}")
            if answer is not None and answer.error is AssignedError.NONE:
                self._lease.heard(sent_ms, is_told=False)
                self._take(answer)
                return True
            await sim.time.sleep(100)
        return False

    async def _ask_join(self, request: AssignedJoin) -> AssignedResponse | None:
        answer: AssignedResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.assigned_join(request)
        )
        return answer

    def _take(self, answer: AssignedResponse) -> None:
        self.generation, self.assigned = answer.generation, set(answer.partitions)
        self._sim.audit.is_assigned(
            self._group_id, self.generation, self._member_id, self.assigned, self.generation
        )

    async def _poll(self) -> bool:
        """Read until the generation is over; return False if the process ends."""
        sim = self._sim
        while True:
            if set(self._commits.positions) != self.assigned:
                await self._commits.resume(self.assigned)
            elif self.assigned and sim.rng.random() < 0.5:
                await self._commit(self.generation)
            elif self.assigned and sim.happens(0.05):
                await self._commit(self.generation - 1)
            if sim.happens(0.03):
                await sim.time.sleep(sim.rng.randrange(2 * SESSION_MS))
            if sim.happens(0.03):
                await self._leave()
                return False
            if sim.happens(0.03):
                return False
            await sim.time.sleep(HEARTBEAT_MS)
            sent_ms = sim.time.now_ms
            answer = await self._call_sync()
            if answer is None or answer.error in _RETRIABLE:
                continue
            if answer.error is not AssignedError.NONE:
                self._check_lease()
                return True
            self._lease.heard(sent_ms, is_told=False)
            self._take(answer)

    def _check_lease(self) -> None:
        """Check that the group went on without this member only if it was silent for too long."""
        group = self._sim.audit.groups.get(self._group_id)
        is_in = group is not None and self._member_id in group.members
        if not is_in and self._member_id != self._left_as:
            self._sim.check_thrown_out(self._member_id, self._lease)

    def _call(self, generation: int) -> AssignedCall:
        return AssignedCall(
            AssignedProtocol.V1, self._group_id, TOPIC, self._member_id, generation, PARTITIONS
        )

    async def _call_sync(self) -> AssignedResponse | None:
        call = self._call(self.generation)
        answer: AssignedResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.assigned_sync(call)
        )
        return answer

    async def _commit(self, generation: int) -> None:
        """Read on in one partition, and record it."""
        sim = self._sim
        positions = self._commits.positions
        partition = sim.rng.choice(sorted(positions))
        positions[partition] += sim.rng.randrange(5)
        commit_id = f"c{sim.fresh_number()}"
        sim.audit.intents[commit_id] = Intent(self._group_id, self._member_id, generation)
        request = AssignedCommit(self._call(generation), partition, positions[partition], commit_id)
        answer: AssignedResponse | None = await sim.network.ask(
            lambda broker: broker.groups.assigned_commit(request)
        )
        sim.note(f"commit {commit_id} of {self._member_id}: {answer and answer[:3]}")
        if answer is not None and answer.error is AssignedError.NONE:
            sim.audit.is_committed(commit_id)

    async def _leave(self) -> None:
        call = self._call(self.generation)
        self.assigned, self._left_as = set(), self._member_id
        await self._sim.network.ask(lambda broker: broker.groups.assigned_leave(call))
