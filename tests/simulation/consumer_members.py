"""Members of the consumer protocol (KIP-848): each owns its partitions until it revokes them."""

from typing import Protocol

from broker.core.groups.commands.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
)
from broker.model.errors import ErrorCode
from tests.simulation.broker import SESSION_MS
from tests.simulation.leases import Lease
from tests.simulation.members import RETRIABLE, Commits
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation

TOPICS = ("synced", "cached")
PARTITIONS = 4
REBALANCE_MS = 20_000
HEARTBEAT_MS = 3_000
Owned = set[tuple[bytes, int]]


class Holder(Protocol):
    """A member of either protocol."""

    name: str
    lease: Lease


class Claims:
    """The owners of a group's partitions, by the responses to members and their revocations."""

    def __init__(self) -> None:
        self._holders: dict[tuple[bytes, int], Holder] = {}

    def take(self, member: Holder, partitions: Owned, now_ms: int) -> None:
        """Note that a member was assigned these."""
        for each in partitions:
            holder = self._holders.get(each)
            if holder is not None and holder is not member and now_ms < holder.lease.end_ms:
                raise Violation(f"{member.name} got {each}, which {holder.name} still has")
            self._holders[each] = member

    def give_back(self, member: Holder, partitions: Owned) -> None:
        """Note that a member has stopped reading these."""
        for each in partitions:
            if self._holders.get(each) is member:
                del self._holders[each]


class ConsumerMember:
    """One place in a consumer group: a process, and its successor after its end."""

    def __init__(
        self, sim: Simulation, group_id: str, name: str, claims: Claims, *, is_static: bool
    ) -> None:
        self.name = name
        self.owned: Owned = set()
        self.lease = Lease(REBALANCE_MS)
        self._sim = sim
        self._group_id = group_id
        self._claims = claims
        self._instance_id = name if is_static else None
        self._member_id = ""
        self._epoch = 0
        self._commits = Commits(sim, group_id)

    async def live(self) -> None:
        """Run process after process."""
        while True:
            await self._sim.time.sleep(self._sim.rng.randrange(3_000))
            await self.process()
            self._sim.note(f"{self.name} ended")

    async def process(self) -> None:
        """Run one process, from its first heartbeat on."""
        self._member_id = f"{self.name}-{self._sim.fresh_number()}"
        self._epoch = 0
        await self._consume()
        self._give_back(set(self.owned))

    def _give_back(self, partitions: Owned) -> None:
        self._claims.give_back(self, partitions)
        self.owned -= partitions
        self._commits.positions = {}

    async def _consume(self) -> None:
        """Heartbeat until the process ends."""
        sim = self._sim
        is_full = True
        while True:
            answer, sent_ms = await self._heartbeat(is_full=is_full)
            is_full = answer is None or answer.error in RETRIABLE
            if answer is not None and answer.error is ErrorCode.NONE:
                is_full = await self._follow(answer, sent_ms)
                if not is_full:
                    await self._work()
            elif answer is not None and not is_full:
                if answer.error is ErrorCode.FENCED_INSTANCE_ID:
                    return
                if answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
                    sim.check_thrown_out(self.name, self.lease)
                self._give_back(set(self.owned))
                self._epoch, is_full = JOIN_EPOCH, True
            if sim.happens(0.03):
                return
            if sim.happens(0.03):
                await self._leave()
                return
            if sim.happens(0.03):
                await sim.time.sleep(sim.rng.randrange(2 * SESSION_MS))
            await sim.time.sleep(100 if is_full else HEARTBEAT_MS)

    async def _heartbeat(self, *, is_full: bool) -> tuple[ConsumerHeartbeatResponse | None, int]:
        owned: dict[bytes, tuple[int, ...]] = {}
        for topic, partition in sorted(self.owned):
            owned[topic] = (*owned.get(topic, ()), partition)
        request = ConsumerHeartbeat(
            self._group_id,
            self._member_id,
            self._epoch,
            self._instance_id,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            topic_names=TOPICS if is_full else None,
            owned=owned if is_full else None,
            requires_member_id=True,
        )
        sent_ms = self._sim.time.now_ms
        answer: ConsumerHeartbeatResponse | None = await self._sim.network.ask(
            lambda broker: broker.groups.consumer_group_heartbeat(request),
            # A member that has missed no response gets no assignment again (as in Kafka).
            comes_late=False,
        )
        answered = answer and (answer.error.name, answer.member_epoch, _shown(answer.assignment))
        self._sim.note(
            f"beat {self._member_id} {self._epoch} full={is_full} {_shown(owned)}: {answered}"
        )
        return answer, sent_ms

    async def _follow(self, answer: ConsumerHeartbeatResponse, sent_ms: int) -> bool:
        """Revoke and take over; return whether to send the next heartbeat at once.

        It acknowledges an assignment with its list of partitions, also an empty one after a join
        (as Kafka's clients do): a lost response to an earlier join may have assigned some, which
        the group considers its own until then.
        """
        has_joined = self._epoch == JOIN_EPOCH
        self._epoch = answer.member_epoch
        if answer.assignment is None:
            self.lease.heard(sent_ms, is_told=False)
            return False
        assigned = {(topic, each) for topic, some in answer.assignment.items() for each in some}
        revoked = self.owned - assigned
        added = assigned - self.owned
        self.lease.heard(sent_ms, is_told=bool(revoked))
        if revoked:
            await self._sim.time.sleep(self._sim.rng.randrange(1_000))
            await self._commits.commit(self._member_id, self._epoch)
            self._give_back(revoked)
        self._claims.take(self, added, self._sim.time.now_ms)
        self.owned |= added
        return bool(revoked or added or has_joined)

    async def _work(self) -> None:
        """Read its partitions, and record it."""
        sim = self._sim
        numbers = {self._number(each) for each in self.owned}
        if set(self._commits.positions) != numbers and numbers:
            await self._commits.resume(numbers)
        elif sim.rng.random() < 0.5:
            await self._commits.commit(self._member_id, self._epoch)
        elif sim.happens(0.1):
            await self._commits.commit(self._member_id, self._epoch - 1)

    def _number(self, place: tuple[bytes, int]) -> int:
        """Return one number for a partition of either topic."""
        return place[1] + (100 if place[0].startswith(b"cached") else 0)

    async def _leave(self) -> None:
        is_for_a_while = self._instance_id is not None and self._sim.rng.random() < 0.5
        self._give_back(set(self.owned))
        request = ConsumerHeartbeat(
            self._group_id,
            self._member_id,
            LEAVE_STATIC_EPOCH if is_for_a_while else LEAVE_EPOCH,
            self._instance_id,
        )
        await self._sim.network.ask(lambda broker: broker.groups.consumer_group_heartbeat(request))


def _shown(partitions: object) -> object:
    if not hasattr(partitions, "items"):
        return partitions
    return " ".join(f"{topic[:6].decode()}{list(numbers)}" for topic, numbers in partitions.items())


def check_shares(shares: list[Owned]) -> None:
    """Check that every partition has one owner, and each member its fair share."""
    sizes = [len(share) for share in shares]
    is_whole = sum(sizes) == len(set().union(*shares)) == PARTITIONS
    if not is_whole or max(sizes) - min(sizes) > len(TOPICS):
        raise Violation(f"the group did not settle: {sizes} {shares}")
