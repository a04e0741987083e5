"""Requests to assigned groups and their responses, independent of the wire protocol.

A group reads one topic. Each command carries the current number of the topic's partitions; for a
topic that does not exist, the number it would be created with. If that number differs from the
number of assigned partitions, any command rebalances the group, as if a member had joined or left.
"""

from enum import Enum
from typing import NamedTuple

from broker.model import limits

NO_GENERATION = 0  # in responses: no group, or none that the caller may see
NEW_GROUP_GENERATION = 1  # before its first member has joined; not visible to clients


class AssignedProtocol(Enum):
    """The protocols with assigned groups; the values are the protocol types in the log."""

    V1 = "polylog-v1"
    CURSUS = "polylog-cursus"


class Assignor(Enum):
    """An assignment strategy; the values are stored in the log and used in V1's commands."""

    ROUND_ROBIN = "round_robin"
    RANGE = "range"


class AssignedError(Enum):
    """Why a command was refused, in the order of the checks.

    For Cursus an unknown member is checked before a stale generation.

    A refused command may still change the group: expired members are removed, and new partitions
    are assigned.
    """

    NONE = "none"
    # The coordinator cannot serve now; the client may retry.
    LOADING = "loading"
    UNAVAILABLE = "unavailable"
    # Errors of a join, and of a commit without a member.
    INVALID_NAME = "invalid name"  # a name of a group, topic or member is empty or too long
    OTHER_PROTOCOL = "other protocol"  # the group has live members of another protocol
    FULL = "full"  # too many members in the group, or groups in the broker
    # Errors of all other commands.
    GROUP_NOT_FOUND = "group not found"  # of this protocol; V1: or it reads another topic
    OTHER_TOPIC = "other topic"  # Cursus: the response has the group's topic; also of a join
    STALE_GENERATION = "stale generation"
    UNKNOWN_MEMBER = "unknown member"
    # Errors of a commit.
    NOT_ASSIGNED = "not assigned"  # the partition is not assigned to this member
    OFFSET_REFUSED = "offset refused"  # too many offsets, too large metadata, or no memory left
    OFFSET_REGRESSION = "offset regression"  # Cursus: a higher offset is committed


class AssignedJoin(NamedTuple):
    """A join; the first member creates its group.

    Attributes:
        protocol: the member's protocol.
        group_id: the group.
        topic: the group's topic from now on; members that read another topic are removed. For
            Cursus the join is refused while one of them is live.
        member_id: the member; a live member that joins again keeps its place. With a suffix, it may
            be the id without suffix of a member that has to join again.
        partition_count: of the topic.
        assignor: from now on; None: unchanged, in a new group the protocol's default.
        session_timeout_ms: a member expires after this time without a request.
        suffix: makes the id of a new member unique, four digits after a `-`; empty: the id is used
            as it is. It is an argument because a state machine draws no random numbers; a suffix
            that is in use is incremented.
        client_id: of the connection, for Kafka's tools.
        client_host: of the connection, as Session.java_host, for Kafka's tools.
    """

    protocol: AssignedProtocol
    group_id: str
    topic: str
    member_id: str
    partition_count: int
    assignor: Assignor | None = None
    session_timeout_ms: int = limits.ASSIGNED_SESSION_TIMEOUT_MS
    suffix: str = ""
    client_id: str = ""
    client_host: str = ""


class AssignedCall(NamedTuple):
    """A sync, heartbeat or leave of a member."""

    protocol: AssignedProtocol
    group_id: str
    topic: str
    member_id: str
    generation: int | None  # None: any
    partition_count: int


class AssignedCommit(NamedTuple):
    """A member's commit of one assigned partition."""

    call: AssignedCall
    partition: int
    offset: int  # the next offset to read
    metadata: str = ""


class AssignedCommits(NamedTuple):
    """A commit of several partitions, all or none.

    Without member and generation it is a commit by a client that is not a member, for any topic:
    allowed for a group of this protocol at any time, for any other group while it has no live
    members.
    """

    call: AssignedCall
    offsets: tuple[tuple[int, int], ...]  # partition and next offset to read; no partition twice
    transaction: tuple[int, int] | None = None  # producer id and epoch, for pending offsets

    @property
    def is_from_member(self) -> bool:
        """Whether it names a member or generation."""
        return bool(self.call.member_id) or self.call.generation is not None


class AssignedMemberStatus(NamedTuple):
    """A live member in a group's status."""

    member_id: str
    last_seen_ms: int  # wall
    partitions: tuple[int, ...]


class AssignedStatus(NamedTuple):
    """The status of a group, or an error."""

    error: AssignedError
    topic: str = ""
    generation: int = NO_GENERATION
    rebalanced_ms: int = 0  # wall
    members: tuple[AssignedMemberStatus, ...] = ()


class AssignedResponse(NamedTuple):
    """The response to every command.

    Attributes:
        error: NONE, or why the command was refused.
        member_id: of the request; after a join, the id that the member has.
        generation: the group's generation now; also with STALE_GENERATION and later errors.
        partitions: of the member after a join or sync, ascending; may be empty.
        topic: with OTHER_TOPIC, the group's topic.
        partition: of several commits, the refused one.
        committed: with OFFSET_REGRESSION, the committed offset.
    """

    error: AssignedError
    member_id: str = ""
    generation: int = NO_GENERATION
    partitions: tuple[int, ...] = ()
    topic: str = ""
    partition: int = -1
    committed: int = -1
