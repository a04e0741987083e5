"""The rebalance of a classic group: waiting joins, choice of the protocol, waiting syncs.

Nothing here is written to the log. When a coordinator is loaded again, waiting requests have been
answered with an error, and clients send them again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from broker.core.coordination.machine import Token
from broker.core.groups.commands.classic import (
    NO_MEMBER_ID,
    GroupProtocol,
    JoinedMember,
    JoinRequest,
    JoinResponse,
    SyncResponse,
)
from broker.core.groups.records.classic import GroupImage, Member
from broker.model.errors import ErrorCode


class PendingRebalance:
    """The expected members of the next generation, and those that have joined it.

    The first join to an empty group begins an *initial* rebalance. It waits for a fixed delay, so
    that members that start together are in one generation; new members extend it, up to the
    rebalance timeout. Any other rebalance completes when all members have joined, or at its
    timeout.
    """

    __slots__ = (
        "deadline_ms",
        "extension_left_ms",
        "has_new_member",
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
        """Begin with the members of the last generation; none has joined yet."""
        self.members = members
        self.protocol_type = protocol_type
        self.leader = leader
        self.is_initial = is_initial
        self.deadline_ms: int | None = None  # set with the first `check_complete`
        self.extension_left_ms = 0
        self.has_new_member = False
        self.joined: dict[str, Token] = {}

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one is the leader."""
        self.has_new_member = self.deadline_ms is not None
        self.members[member.member_id] = member
        if self.leader is None:
            self.leader = member.member_id
            self.protocol_type = protocol_type

    def replace(self, old_id: str, new: Member) -> None:
        """Replace a static member's id, keeping its position."""
        self.members = with_replaced(self.members, old_id, new)
        if self.leader == old_id:
            self.leader = new.member_id

    def remove(self, member_id: str) -> Token | None:
        """Remove a member; return the token of its waiting join, if any."""
        del self.members[member_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return self.joined.pop(member_id, None)

    def check_complete(
        self, now_ms: int, initial_delay_ms: int, *, has_pending_members: bool
    ) -> bool:
        """Return whether the join phase is over; called after every change of this rebalance."""
        if self.deadline_ms is None:
            self._set_deadline(now_ms, initial_delay_ms)
        if (
            not self.is_initial
            and not has_pending_members
            and len(self.joined) == len(self.members)
        ):
            return True
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return False
        if not (self.is_initial and self.has_new_member and self.extension_left_ms > 0):
            return True
        delay_ms = min(initial_delay_ms, self.extension_left_ms)
        self.deadline_ms = now_ms + delay_ms
        self.extension_left_ms -= delay_ms
        self.has_new_member = False
        return False

    def extend_deadline(self, now_ms: int) -> None:
        """Wait once more: only absent static members are left, and none could lead."""
        self.deadline_ms = now_ms + max(self.rebalance_timeout_ms, 1)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def _set_deadline(self, now_ms: int, initial_delay_ms: int) -> None:
        patience_ms = self.rebalance_timeout_ms
        if self.is_initial:
            self.extension_left_ms = max(patience_ms - initial_delay_ms, 0)
            patience_ms = initial_delay_ms
        self.deadline_ms = now_ms + patience_ms


class PendingSyncs:
    """Syncs that wait for the leader's assignments, and members that have not synced yet.

    Attributes:
        waiting: tokens by member id, in the order of arrival.
        deadline_ms: the monotonic time until which the others may sync; None: no deadline.
    """

    __slots__ = ("_not_received", "deadline_ms", "waiting")

    def __init__(self) -> None:
        """Begin without members."""
        self.waiting: dict[str, Token] = {}
        self.deadline_ms: int | None = None
        self._not_received: set[str] = set()

    def start(self, members: Mapping[str, Member], now_ms: int) -> None:
        """Expect a sync of each member within the longest rebalance timeout."""
        patience_ms = max(member.rebalance_timeout_ms for member in members.values())
        self._not_received = set(members)
        self.deadline_ms = now_ms + patience_ms

    def mark_received(self, member_id: str) -> None:
        """Stop expecting a sync of this member."""
        self._not_received.discard(member_id)

    def add_waiting(self, member_id: str, token: Token) -> Token | None:
        """Add a waiting sync; return the member's earlier one, which is to be answered."""
        earlier = self.waiting.pop(member_id, None)
        self.waiting[member_id] = token
        return earlier

    def expired(self, members: Iterable[str], now_ms: int) -> list[str]:
        """Return the members that have not synced in time; empty until the next `start`."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return []
        self.deadline_ms = None
        return [each for each in members if each in self._not_received]

    def cancel(self) -> list[Token]:
        """Stop waiting for assignments; return the tokens of waiting syncs."""
        tokens = list(self.waiting.values())
        self.waiting.clear()
        self._not_received.clear()
        self.deadline_ms = None
        return tokens


def with_replaced(members: Mapping[str, Member], old_id: str, new: Member) -> dict[str, Member]:
    """Return the members in the same order, with one of them replaced."""
    kept = (new if each.member_id == old_id else each for each in members.values())
    return {member.member_id: member for member in kept}


def new_member(request: JoinRequest) -> Member:
    """Return the member that a join describes."""
    return Member(
        request.member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
    )


def metadata_of(protocols: Iterable[GroupProtocol], name: str) -> bytes:
    """Return the metadata of one protocol; empty if it is not offered."""
    return next((each.metadata for each in protocols if each.name == name), b"")


def choose_protocol(voters: Iterable[tuple[GroupProtocol, ...]]) -> str:
    """Choose a protocol: each member votes for its first protocol that all members support.

    In a tie the preference of the first member decides. The members must have a protocol in common.
    """
    # A thousand members of one application have equal ballots: count them together.
    ballots = Counter(tuple([protocol.name for protocol in protocols]) for protocols in voters)
    first = next(iter(ballots))
    common = set(first).intersection(*ballots)
    votes: Counter[str] = Counter()
    for ballot, count in ballots.items():
        votes[next(name for name in ballot if name in common)] += count
    return max((name for name in first if name in common), key=votes.__getitem__)


def join_response(image: GroupImage, member_id: str) -> JoinResponse:
    """Return a member's JoinGroup response; only the leader's has the list of members."""
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


def sync_response(image: GroupImage, member_id: str) -> SyncResponse:
    """Return a member's SyncGroup response."""
    assignment = image.members[member_id].assignment
    return SyncResponse(ErrorCode.NONE, assignment, image.protocol_type, image.protocol)
