"""Members of classic groups: they join, sync, commit, and fail in every way a process can."""

from collections.abc import Sequence
from typing import Protocol

from broker.core.groups.commands.classic import (
    GroupProtocol,
    HeartbeatRequest,
    JoinedMember,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from broker.core.groups.commands.offsets import (
    CommitRequest,
    CommitResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    OffsetToCommit,
)
from broker.model.errors import ErrorCode
from tests.simulation.audit import Intent
from tests.simulation.broker import SESSION_MS
from tests.simulation.leases import Lease
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation

TOPIC = "synced"
PARTITIONS = 6  # made-up sizes: the partitions hold no records
REBALANCE_MS = 15_000
HEARTBEAT_MS = 3_000
RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class Commits:
    """How far a member has read, and its commits."""

    def __init__(self, sim: Simulation, group_id: str) -> None:
        self.positions: dict[int, int] = {}
        self._sim = sim
        self._group_id = group_id

    async def resume(self, partitions: set[int]) -> bool:
        """Continue at the group's offset; return whether it is known."""
        self.positions = {}
        request = FetchOffsetsRequest(self._group_id, {TOPIC: tuple(sorted(partitions))})
        answer: FetchOffsetsResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.fetch_offsets(request)
        )
        if answer is None or answer.error is not ErrorCode.NONE:
            return False
        for partition, committed in answer.topics.get(TOPIC, {}).items():
            self.positions[partition] = 0 if committed is None else committed.offset
        return True

    async def commit(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> ErrorCode | None:
        """Read on, and commit."""
        sim = self._sim
        if not self.positions:
            return ErrorCode.NONE
        for partition in self.positions:
            self.positions[partition] += sim.rng.randrange(5)
        commit_id = f"c{sim.fresh_number()}"
        sim.audit.intents[commit_id] = Intent(self._group_id, member_id, generation)
        request = CommitRequest(
            self._group_id,
            member_id,
            instance_id,
            generation,
            tuple(
                OffsetToCommit(TOPIC, partition, offset, -1, commit_id)
                for partition, offset in self.positions.items()
            ),
        )
        answer: CommitResponse | None = await sim.network.ask(
            lambda broker: broker.groups.commit_offsets(request)
        )
        if answer is None:
            return None
        sim.note(f"commit {commit_id} of {member_id} at {generation}: {answer.errors[0].name}")
        if answer.errors[0] is ErrorCode.NONE:
            sim.audit.is_committed(commit_id)
        return answer.errors[0]


class ClassicMember:
    """One place in a classic group: a process, and its successor after its end."""

    _joins_late = True  # an old join may arrive after the member has synced

    def __init__(self, sim: Simulation, group_id: str, name: str, *, is_static: bool) -> None:
        self.assigned: set[int] = set()
        self.generation = -1
        self.lease = Lease(REBALANCE_MS)
        self._sim = sim
        self._group_id = group_id
        self.name = name
        self._instance_id = name if is_static else None
        self._member_id = ""
        self._members: tuple[JoinedMember, ...] = ()  # the members to assign to, if it leads
        self._is_over = False  # the process has ended
        self._commits = Commits(sim, group_id)

    @property
    def _owner(self) -> str:
        return self._instance_id or self._member_id

    async def live(self) -> None:
        """Run process after process."""
        while True:
            await self._sim.time.sleep(self._sim.rng.randrange(3_000))
            await self.process()
            self._sim.note(f"{self.name} ended")

    async def process(self) -> None:
        """Run one process, from its first join on."""
        self._member_id, self.generation, self._is_over = "", -1, False
        while await self._join():
            if await self._sync():
                await self._poll()
            if self._is_over:
                break
        self._lose()

    # ---- its assignment: other kinds of members override this
    # --------------------------------------------

    def _metadata(self) -> GroupProtocol:
        return GroupProtocol("range", b"")

    def _prepare_to_join(self) -> None:
        """Stop reading: the eager protocol."""
        self._lose()

    async def _take(self, assignment: bytes) -> bool:
        """Begin to read the assignment; return False if the group has to rebalance first."""
        made_for, _, partitions = assignment.decode().partition(":")
        self.assigned = {int(each) for each in partitions.split(",") if each}
        self._sim.audit.is_assigned(
            self._group_id,
            self.generation,
            self._owner,
            self.assigned,
            int(made_for or self.generation),
        )
        return True

    def _lose(self) -> None:
        """Own nothing any more."""
        self.assigned, self._commits.positions = set(), {}

    # ---- the protocol ----------------------------------------------------------------------------

    async def _ask_join(self) -> JoinResponse | None:
        request = JoinRequest(
            self._group_id,
            self._member_id,
            self._instance_id,
            self.name,
            "127.0.0.1",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            (self._metadata(),),
            requires_member_id=True,
        )
        answer: JoinResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.join_group(request),
            timeout_ms=REBALANCE_MS + 5_000,
            comes_late=self._joins_late,
        )
        return answer

    async def _join(self) -> bool:
        """Join until there is a generation; return False if the process ends."""
        sim = self._sim
        self._prepare_to_join()
        while not sim.happens(0.02):
            sent_ms = sim.time.now_ms
            answer = await self._ask_join()
            sim.note(f"join {self.name} {self._member_id}: {answer and answer[:3]}")
            if answer is None:
                await sim.time.sleep(100)
            elif answer.error is ErrorCode.NONE:
                self._member_id, self.generation = answer.member_id, answer.generation
                self._members = answer.members
                self.lease.heard(sent_ms, is_told=False)  # With a join its session starts again.
                return True
            elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
            elif answer.error is ErrorCode.FENCED_INSTANCE_ID:
                return False
            else:
                if answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._forget()
                await sim.time.sleep(100)
        return False

    async def _sync(self) -> bool:
        """Get the assignment; False: none is left in this generation, or the process ends."""
        sim = self._sim
        if sim.happens(0.02):
            self._is_over = True
            return False
        if sim.happens(0.05):  # A late leader: its group has gone on.
            await sim.time.sleep(sim.rng.randrange(20_000))
        answer, sent_ms = None, sim.time.now_ms
        while answer is None or answer.error in RETRIABLE:
            await sim.time.sleep(20)
            sent_ms = sim.time.now_ms
            answer = await self._ask_sync()
        self._is_over = answer.error is ErrorCode.FENCED_INSTANCE_ID
        if answer.error in _FORGOTTEN:
            self._forget()
        if answer.error is not ErrorCode.NONE:
            return False
        self.lease.heard(sent_ms, is_told=False)
        return await self._take(answer.assignment)

    async def _ask_sync(self) -> SyncResponse | None:
        request = SyncRequest(
            self._group_id,
            self._member_id,
            self._instance_id,
            self.generation,
            self._assignments(),
            "consumer",
            self._metadata().name,
        )
        answer: SyncResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.sync_group(request), timeout_ms=REBALANCE_MS + 5_000
        )
        self._sim.note(f"sync {self.name} {self.generation}: {answer and answer[:2]}")
        return answer

    def _assignments(self) -> dict[str, bytes]:
        count = len(self._members)
        return {
            member.member_id: f"{self.generation}:".encode()
            + ",".join(str(each) for each in range(place, PARTITIONS, count)).encode()
            for place, member in enumerate(self._members)
        }

    async def _poll(self) -> None:
        """Read and heartbeat until the group rebalances."""
        sim = self._sim
        error: ErrorCode | None = ErrorCode.NONE
        while error is ErrorCode.NONE or error is None:
            if set(self._commits.positions) != self.assigned:
                await self._commits.resume(self.assigned)
            elif sim.rng.random() < 0.5:
                await self._commits.commit(self._member_id, self.generation, self._instance_id)
            if sim.happens(0.05):
                await self._commits.commit(self._member_id, self.generation - 1, self._instance_id)
            if sim.happens(0.03):
                await sim.time.sleep(sim.rng.randrange(2 * SESSION_MS))
            if sim.happens(0.03):
                await self._leave()
            self._is_over = self._is_over or sim.happens(0.03)
            if self._is_over:
                return
            await sim.time.sleep(HEARTBEAT_MS)
            error = await self._heartbeat()
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            await self._commits.commit(self._member_id, self.generation, self._instance_id)
        elif error in _FORGOTTEN:
            self._forget()
        self._is_over = error is ErrorCode.FENCED_INSTANCE_ID

    async def _heartbeat(self) -> ErrorCode | None:
        request = HeartbeatRequest(
            self._group_id, self._member_id, self._instance_id, self.generation
        )
        sent_ms = self._sim.time.now_ms
        error: ErrorCode | None = await self._sim.network.ask(
            lambda broker: broker.groups.heartbeat(request)
        )
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            # During a load every heartbeat succeeds (as in Kafka), also that of a removed member.
            if sent_ms >= self._sim.loaded_ms:
                self.lease.heard(sent_ms, is_told=error is ErrorCode.REBALANCE_IN_PROGRESS)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._sim.check_thrown_out(self.name, self.lease)
        if error not in (None, ErrorCode.NONE):
            self._sim.note(f"heartbeat {self.name} {self.generation}: {error.name}")
        return None if error in RETRIABLE else error

    def _forget(self) -> None:
        """Forget its id, which the group does not know: it is a new member."""
        self._member_id = ""
        self._lose()

    async def _leave(self) -> None:
        leaving = LeavingMember(self._member_id, self._instance_id)
        request = LeaveRequest(self._group_id, (leaving,))
        self._lose()
        await self._sim.network.ask(lambda broker: broker.groups.leave_group(request))
        self._is_over = True


class Sharing(Protocol):
    """A member of either kind of group that has generations."""

    generation: int
    assigned: set[int]


def check_shares(members: Sequence[Sharing]) -> None:
    """Check that every partition has one owner, all of one generation."""
    generations = {each.generation for each in members}
    shares = [each.assigned for each in members]
    total = sum(map(len, shares))
    if len(generations) != 1 or total != PARTITIONS or len(set().union(*shares)) != PARTITIONS:
        raise Violation(f"the group did not settle: {generations} {shares}")
