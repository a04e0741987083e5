"""Requests to classic groups and their responses.

What an API version changes beyond its fields is a flag here (`requires_member_id`), so that the
state machine sees no versions. An empty member id is a member that has none yet; `NO_GENERATION` is
a consumer that is not a member, as in Kafka.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from broker.model.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupState(Enum):
    """The states of a classic group; the values are those of DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupProtocol(NamedTuple):
    """An assignment protocol that a member supports, with its metadata (its subscription)."""

    name: str
    metadata: bytes

    @property
    def size(self) -> int:
        """The length of name and metadata."""
        return len(self.name) + len(self.metadata)


class JoinRequest(NamedTuple):
    """A JoinGroup request.

    `fresh_id` makes the id of a new member unique; it is an argument because a state machine draws
    no random numbers.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    requires_member_id: bool = False
    supports_skip_assignment: bool = False
    fresh_id: str = ""
    reason: str = ""  # KIP-800

    @property
    def fresh_member_id(self) -> str:
        """The id of a new member, which begins with its instance id or client id."""
        return f"{self.instance_id or self.client_id}-{self.fresh_id}"


class JoinedMember(NamedTuple):
    """A member as the leader sees it, to assign partitions to it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    """A JoinGroup response: the generation; only the leader gets the members."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """A SyncGroup request; the leader's has the assignments of all members."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    assignments: Mapping[str, bytes] = MappingProxyType({})
    protocol_type: str | None = None  # None: not in this API version
    protocol: str | None = None


class SyncResponse(NamedTuple):
    """A SyncGroup response: the assignment as the leader encoded it."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


class HeartbeatRequest(NamedTuple):
    """A Heartbeat request of a classic member."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class LeavingMember(NamedTuple):
    """A member that leaves: by member id, or a static member by instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


class LeaveRequest(NamedTuple):
    """A LeaveGroup request; before v3 with one member."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveResponse(NamedTuple):
    """An error for the whole request, or one per member in request order."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


class DescribedMember(NamedTuple):
    """A member in DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group in DescribeGroups; an unknown one is Dead."""

    error: ErrorCode
    group_id: str
    state: GroupState = GroupState.DEAD
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
