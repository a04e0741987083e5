"""Between two generations: the waiting room of a rebalance, the vote, the wait for assignments.

Nothing here is ever written. When a coordinator loads again from its log, whoever waited has been
told so, and asks again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from broker.core.groups.commands import (
    NO_MEMBER_ID,
    GroupProtocol,
    JoinedMember,
    JoinRequest,
    JoinResponse,
    SyncResponse,
)
from broker.core.groups.records import GroupImage, Member
from broker.core.machine import Token
from broker.model.errors import ErrorCode


class WaitingRoom:
    """Who will be in the next generation, and who of them has come.

    A first join opens an *initial* room, which stays open for a fixed delay so that a fleet that
    starts together meets in one generation; newcomers extend it, up to the rebalance timeout.
    Any other room closes when all have come, or when the rebalance timeout is over.
    """

    __slots__ = (
        "deadline_ms",
        "extension_left_ms",
        "has_newcomer",
        "is_initial",
        "joined",
        "leader",
        "members",
        "protocol_type",
    )

    def __init__(
        self,
        members: dict[str, Member],
        protocol_type: str,
        leader: str | None,
        *,
        is_initial: bool,
    ) -> None:
        """Open with who was in the last generation; nobody has come yet."""
        self.members = members
        self.protocol_type = protocol_type
        self.leader = leader
        self.is_initial = is_initial
        self.deadline_ms: int | None = None  # set once it is known who is in it
        self.extension_left_ms = 0
        self.has_newcomer = False
        self.joined: dict[str, Token] = {}

    def add(self, member: Member, protocol_type: str) -> None:
        """Let a newcomer in; the first one leads."""
        self.has_newcomer = self.deadline_ms is not None
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id
            self.protocol_type = protocol_type

    def replace(self, old_id: str, new: Member) -> None:
        """Let a static member go on under its new id, in its old place."""
        self.members = replaced(self.members, old_id, new)
        if self.leader == old_id:
            self.leader = new.member_id

    def remove(self, member_id: str) -> Token | None:
        """Take a member out; what comes back still waits for an answer."""
        del self.members[member_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return self.joined.pop(member_id, None)

    def is_over(self, now_ms: int, initial_delay_ms: int, *, awaits_more: bool) -> bool:
        """Whether it is time to close; asked after everything that happens in the room."""
        if self.deadline_ms is None:
            self._set_deadline(now_ms, initial_delay_ms)
        if not self.is_initial and not awaits_more and len(self.joined) == len(self.members):
            return True
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return False
        if not (self.is_initial and self.has_newcomer and self.extension_left_ms > 0):
            return True
        delay_ms = min(initial_delay_ms, self.extension_left_ms)
        self.deadline_ms = now_ms + delay_ms
        self.extension_left_ms -= delay_ms
        self.has_newcomer = False
        return False

    def wait_again(self, now_ms: int) -> None:
        """Only absent static members are left, and nobody could lead: give them more time."""
        self.deadline_ms = now_ms + max(self.rebalance_timeout_ms, 1)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The patience of the most patient member."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def _set_deadline(self, now_ms: int, initial_delay_ms: int) -> None:
        patience_ms = self.rebalance_timeout_ms
        if self.is_initial:
            self.extension_left_ms = max(patience_ms - initial_delay_ms, 0)
            patience_ms = initial_delay_ms
        self.deadline_ms = now_ms + patience_ms


class Syncs:
    """Who waits for the leader's assignments, and who has not asked for theirs yet.

    Attributes:
        waiting: by member id, in the order in which they asked.
        deadline_ms: the monotonic time until which the others may ask; None: nobody looks.
    """

    __slots__ = ("_missing", "deadline_ms", "waiting")

    def __init__(self) -> None:
        """Begin with nobody."""
        self.waiting: dict[str, Token] = {}
        self.deadline_ms: int | None = None
        self._missing: set[str] = set()

    def expect(self, members: Mapping[str, Member], now_ms: int) -> None:
        """Members that do not ask for their assignment in time are taken for dead."""
        patience_ms = max(member.rebalance_timeout_ms for member in members.values())
        self._missing = set(members)
        self.deadline_ms = now_ms + patience_ms

    def has_asked(self, member_id: str) -> None:
        """A member has asked, or need not any more."""
        self._missing.discard(member_id)

    def park(self, member_id: str, token: Token) -> Token | None:
        """Let a member wait; what comes back is its earlier request, to be answered."""
        earlier = self.waiting.pop(member_id, None)
        self.waiting[member_id] = token
        return earlier

    def late(self, members: Iterable[str], now_ms: int) -> list[str]:
        """Which of the members have not asked in time; said once."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return []
        self.deadline_ms = None
        return [each for each in members if each in self._missing]

    def end(self) -> list[Token]:
        """There will be no assignments: who waited for them, to be told."""
        tokens = list(self.waiting.values())
        self.waiting.clear()
        self._missing.clear()
        self.deadline_ms = None
        return tokens


def replaced(members: Mapping[str, Member], old_id: str, new: Member) -> dict[str, Member]:
    """The same members in the same order, one of them replaced."""
    kept = (new if each.member_id == old_id else each for each in members.values())
    return {member.member_id: member for member in kept}


def new_member(request: JoinRequest) -> Member:
    """The member that a join describes."""
    return Member(
        request.member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
    )


def metadata_of(protocols: Iterable[GroupProtocol], name: str) -> bytes:
    """The subscription in the format of one protocol."""
    return next((each.metadata for each in protocols if each.name == name), b"")


def choose_protocol(voters: Iterable[tuple[GroupProtocol, ...]]) -> str:
    """The winner: each member votes for the first of its protocols that all members support.

    A tie goes to what the first member prefers. The caller has let nobody in without a protocol
    in common.
    """
    # A thousand members of one application vote alike.
    ballots = Counter(tuple([protocol.name for protocol in protocols]) for protocols in voters)
    first = next(iter(ballots))
    common = set(first).intersection(*ballots)
    votes = dict.fromkeys((name for name in first if name in common), 0)
    for ballot, count in ballots.items():
        votes[next(name for name in ballot if name in common)] += count
    return max(votes, key=votes.__getitem__)  # The first of the largest, in order of insertion.


def joined(image: GroupImage, member_id: str) -> JoinResponse:
    """A generation as this member is told of it: the leader is told who else is in it."""
    members: tuple[JoinedMember, ...] = ()
    if member_id == image.leader:
        members = tuple(
            JoinedMember(each.member_id, each.instance_id, each.subscription)
            for each in image.members.values()
        )
    return JoinResponse(
        ErrorCode.NONE,
        member_id,
        image.generation,
        image.protocol_type,
        image.protocol,
        image.leader or NO_MEMBER_ID,
        members,
    )


def synced(image: GroupImage, member_id: str) -> SyncResponse:
    """A member's part of what the leader has assigned."""
    assignment = image.members[member_id].assignment
    return SyncResponse(ErrorCode.NONE, assignment, image.protocol_type, image.protocol)
