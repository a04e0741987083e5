"""Requests to groups and their responses, independent of the wire protocol.

What an API version changes beyond its fields is a flag here (`requires_member_id`), so that the
state machine sees no versions. An empty member id is a member that has none yet; `NO_GENERATION` is
a consumer that is not a member, as in Kafka.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from broker.core.coordination.machine import Decision
from broker.core.groups.assigned.commands import AssignedResponse, AssignedStatus
from broker.core.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeatResponse,
    ConsumerSettings,
)
from broker.core.groups.records import CommittedOffset, Record
from broker.model import limits
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


class GroupSettings(NamedTuple):
    """The configurable limits and intervals: Kafka's group.*, offset.* and offsets.*."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = limits.MEMBERS_PER_GROUP_MAX
    metadata_bytes_max: int = limits.GROUP_METADATA_BYTES_MAX
    offset_metadata_bytes_max: int = limits.OFFSET_METADATA_BYTES_MAX
    offsets_max: int = limits.OFFSETS_PER_GROUP_MAX
    memory_bytes_max: int = 1 << 62  # of all groups of the broker: group_sizes.py
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer: ConsumerSettings = ConsumerSettings()


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


class OffsetToCommit(NamedTuple):
    """The next offset to read in one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitRequest(NamedTuple):
    """Offsets to commit, of a member or of a consumer without membership.

    With a producer's id and epoch the offsets are pending until its transaction is committed.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    transaction: tuple[int, int] | None = None
    retention_ms: int | None = None  # before OffsetCommit v5; None: the broker's
    knows_epochs: bool = True  # False: an API version without member epochs (KIP-848)


class CommitResponse(NamedTuple):
    """One error per offset, in request order."""

    errors: tuple[ErrorCode, ...]


class FetchOffsetsRequest(NamedTuple):
    """An OffsetFetch request; topics None: all partitions that have an offset."""

    group_id: str
    topics: Mapping[str, tuple[int, ...]] | None
    requires_stable: bool = False  # KIP-447
    member_id: str | None = None  # checked in a consumer group (KIP-848); None: not given
    member_epoch: int = -1


class FetchOffsetsResponse(NamedTuple):
    """Committed offsets; None for a requested partition without one.

    Unstable partitions have an offset that is pending in an open transaction.
    """

    error: ErrorCode
    topics: Mapping[str, Mapping[int, CommittedOffset | None]] = MappingProxyType({})
    unstable: AbstractSet[tuple[str, int]] = frozenset()


class DeleteOffsetsRequest(NamedTuple):
    """An OffsetDelete request."""

    group_id: str
    topics: Mapping[str, tuple[int, ...]]


class DeleteOffsetsResponse(NamedTuple):
    """An error for the whole request, or one per topic for all of its partitions."""

    error: ErrorCode
    topics: Mapping[str, ErrorCode] = MappingProxyType({})


class ListGroupsRequest(NamedTuple):
    """Filters of ListGroups, in lower case; an empty filter matches all groups."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class GroupListing(NamedTuple):
    """A row of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResponse(NamedTuple):
    """The groups of one coordinator partition that pass the filters."""

    error: ErrorCode
    groups: tuple[GroupListing, ...] = ()


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


Response: TypeAlias = (
    JoinResponse
    | SyncResponse
    | LeaveResponse
    | CommitResponse
    | FetchOffsetsResponse
    | GroupDescription
    | DeleteOffsetsResponse
    | ListGroupsResponse
    | ConsumerHeartbeatResponse
    | ConsumerGroupDescription
    | AssignedResponse
    | AssignedStatus
    | ErrorCode
)

GroupDecision: TypeAlias = Decision[Record, Response]
