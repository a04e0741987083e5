"""What can be asked of a group, and the answers, in words that no protocol owns.

What a protocol's version changes beyond its fields is a flag here (`requires_member_id`), so that
the state machine never sees a version. Ids are strings, an empty member id is a member that has
none yet, `NO_GENERATION` stands for a consumer outside of any membership, as in Kafka.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from broker.core.groups.assigned.commands import AssignedResponse, AssignedStatus
from broker.core.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeatResponse,
    ConsumerSettings,
)
from broker.core.groups.records import CommittedOffset, Record
from broker.core.machine import Decision
from broker.model import limits
from broker.model.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupState(Enum):
    """The states of a classic group (kafka.md 2.6); the values are what DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupSettings(NamedTuple):
    """What an operator may move, in Kafka's words (group.*, offset.*, offsets.*)."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = limits.MEMBERS_PER_GROUP_MAX
    metadata_bytes_max: int = limits.GROUP_METADATA_BYTES_MAX
    offset_metadata_bytes_max: int = limits.OFFSET_METADATA_BYTES_MAX
    offsets_max: int = limits.OFFSETS_PER_GROUP_MAX
    held_bytes_max: int = 1 << 62  # of all groups of the broker: group_sizes.py
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer: ConsumerSettings = ConsumerSettings()


class GroupProtocol(NamedTuple):
    """A way to assign that a member can take part in, with its subscription in that format."""

    name: str
    metadata: bytes

    @property
    def size(self) -> int:
        """What it takes, in bytes and characters."""
        return len(self.name) + len(self.metadata)


class JoinRequest(NamedTuple):
    """A member asks to be in the next generation.

    `fresh_id` makes the id of a member that has none unique; it comes from outside because a
    machine draws no random numbers.
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
    reason: str = ""  # in the client's words (KIP-800)

    @property
    def fresh_member_id(self) -> str:
        """The id of a member that has none yet: people know its instance or client by it."""
        return f"{self.instance_id or self.client_id}-{self.fresh_id}"


class JoinedMember(NamedTuple):
    """What the leader is told of a member, to assign partitions by."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    """The generation a member is part of; only its leader gets the members."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """A member asks for its assignment; the leader brings everybody's."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    assignments: Mapping[str, bytes] = MappingProxyType({})
    protocol_type: str | None = None  # None: this version does not say
    protocol: str | None = None


class SyncResponse(NamedTuple):
    """A member's assignment, in the leader's words."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


class HeartbeatRequest(NamedTuple):
    """A member says that it is alive."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


class LeavingMember(NamedTuple):
    """Who leaves: by member id, or an administrator names a static member by its instance."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


class LeaveRequest(NamedTuple):
    """Members leave together; older versions name one."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveResponse(NamedTuple):
    """An error for the whole request, or one per member in the order asked."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


class OffsetToCommit(NamedTuple):
    """The next offset to read of one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitRequest(NamedTuple):
    """A member, or a consumer without membership, says how far it has read.

    With the id and epoch of a producer it counts when that producer's transaction is committed.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    offsets: tuple[OffsetToCommit, ...]
    transaction: tuple[int, int] | None = None
    retention_ms: int | None = None  # how long to keep them; None: as long as the broker does
    knows_epochs: bool = True  # False: a version whose generation cannot be a member's epoch


class CommitResponse(NamedTuple):
    """One error per offset, in the order asked."""

    errors: tuple[ErrorCode, ...]


class FetchOffsetsRequest(NamedTuple):
    """Which partitions' offsets: None is every partition that has one."""

    group_id: str
    topics: Mapping[str, tuple[int, ...]] | None
    requires_stable: bool = False  # KIP-447
    member_id: str | None = None  # who asks, of a consumer group (KIP-848); None: anybody
    member_epoch: int = -1


class FetchOffsetsResponse(NamedTuple):
    """What was committed; a partition asked for without a commit is None.

    Of those that are unstable an open transaction will decide.
    """

    error: ErrorCode
    topics: Mapping[str, Mapping[int, CommittedOffset | None]] = MappingProxyType({})
    unstable: AbstractSet[tuple[str, int]] = frozenset()


class DeleteOffsetsRequest(NamedTuple):
    """An administrator lets a group forget some partitions."""

    group_id: str
    topics: Mapping[str, tuple[int, ...]]


class DeleteOffsetsResponse(NamedTuple):
    """An error for the whole request, or one per topic, whatever its partitions."""

    error: ErrorCode
    topics: Mapping[str, ErrorCode] = MappingProxyType({})


class ListGroupsRequest(NamedTuple):
    """Which groups to list, in small letters; an empty filter lets all pass."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class GroupListing(NamedTuple):
    """A group in a list of many."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResponse(NamedTuple):
    """The groups of one coordinator partition that pass the filters."""

    error: ErrorCode
    groups: tuple[GroupListing, ...] = ()


class DescribedMember(NamedTuple):
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group as an administrator sees it; an unknown one is Dead."""

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
