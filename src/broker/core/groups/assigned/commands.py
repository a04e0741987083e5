"""What can be asked of an assigned group, and the answers, in words that no protocol owns.

A group reads one topic. Its partitions are those of the topic when a command comes, so each command
says how many there are: of a topic that does not exist, as many as it would be created with. A
group whose topic has another number of partitions than it has assigned is rebalanced, whatever the
command, as if a member had come or gone.
"""

from enum import Enum
from typing import NamedTuple

from broker.model import limits

NO_GENERATION = 0  # in answers: no group is known, or not to be spoken of
NEW_GROUP_GENERATION = 1  # before its first member has joined, which nobody sees


class AssignedProtocol(Enum):
    """The dialects that have such groups; the values are the groups' protocol type in the log."""

    V1 = "polylog-v1"
    CURSUS = "polylog-cursus"


class Assignor(Enum):
    """How partitions are shared among members; the values stand in the log and in V1's lines."""

    ROUND_ROBIN = "round_robin"
    RANGE = "range"


class AssignedError(Enum):
    """Why a command did nothing for its caller, in the order in which it is found out.

    Of Cursus an unknown member comes before a stale generation.

    The group may have changed nevertheless: it lost members that were silent for too long, or got
    new partitions.
    """

    NONE = "none"
    # The coordinator cannot serve now; what may help is to ask again.
    LOADING = "loading"
    UNAVAILABLE = "unavailable"
    # Of a join, and of a commit without a member.
    INVALID_NAME = "invalid name"  # a group, topic or member is empty or longer than can be kept
    OTHER_PROTOCOL = "other family"  # the group has live members of another dialect
    FULL = "full"  # of members in the group, or of groups in the broker
    # Of everything else.
    GROUP_NOT_FOUND = "group not found"  # no such group of this family; V1: or of another topic
    OTHER_TOPIC = "other topic"  # Cursus: what the group reads is in the answer; also of a join
    STALE_GENERATION = "stale generation"
    UNKNOWN_MEMBER = "unknown member"
    # Of a commit.
    NOT_ASSIGNED = "not assigned"  # the partition is another member's, or nobody's
    OFFSET_REFUSED = "offset refused"  # the group has as many offsets as it may
    OFFSET_REGRESSION = "offset regression"  # Cursus: more is committed already


class AssignedJoin(NamedTuple):
    """A member asks for its part of a topic; an unknown group begins with its first member.

    Attributes:
        protocol: whose client it is.
        group_id: the group.
        topic: what the group reads from now on; members who read another topic are dropped. Of
            Cursus the join is refused while one of them lives.
        member_id: who joins; a live member that joins again goes on as it was. With a suffix it may
            also be the id without it of a member that was told to join again.
        partition_count: of the topic.
        assignor: how to assign from now on; None: as it is, a new group in round robin.
        session_timeout_ms: a member is dead when it is silent for longer.
        suffix: what makes the id of a new member unique, four digits behind a `-`; empty: its id is
            as given. It comes from outside because a machine draws no random numbers; a suffix that
            another member has already is counted up.
        client_id: of the connection, for tools.
        client_host: of the connection, as Session.java_host, for tools.
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
    """A member of a generation asks for its part, is alive, or leaves."""

    protocol: AssignedProtocol
    group_id: str
    topic: str
    member_id: str
    generation: int | None  # None: whichever it is
    partition_count: int


class AssignedCommit(NamedTuple):
    """A member says how far it has read a partition that it has been assigned."""

    call: AssignedCall
    partition: int
    offset: int  # the next one to read
    metadata: str = ""


class AssignedCommits(NamedTuple):
    """A member says how far it has read some partitions: all of it counts, or nothing.

    Without a member and generation it is a commit of whoever it may be, of any topic: for a group
    of the family at any time, for one of another kind while it has no live members.
    """

    call: AssignedCall
    offsets: tuple[tuple[int, int], ...]  # partition, and the next offset to read; each once
    transaction: tuple[int, int] | None = None  # id and epoch of the producer whose commit counts

    @property
    def is_fenced(self) -> bool:
        """Whether it is a member's."""
        return bool(self.call.member_id) or self.call.generation is not None


class AssignedMemberStatus(NamedTuple):
    """A live member as its dialect shows it."""

    member_id: str
    heard_ms: int  # wall
    partitions: tuple[int, ...]


class AssignedStatus(NamedTuple):
    """A group as its dialect shows it, or why it cannot be shown."""

    error: AssignedError
    topic: str = ""
    generation: int = NO_GENERATION
    rebalanced_ms: int = 0  # wall
    members: tuple[AssignedMemberStatus, ...] = ()


class AssignedResponse(NamedTuple):
    """The answer to every command.

    Attributes:
        error: NONE, or why nothing was done.
        member_id: who was asked for; after a join, the id by which it goes.
        generation: the group's now, also with STALE_GENERATION and what comes behind it.
        partitions: after a join or a sync the member's, ascending; a surplus member has none.
        topic: with OTHER_TOPIC what the group reads.
        partition: of several commits the one that is at fault.
        committed: with OFFSET_REGRESSION what it has been committed to.
    """

    error: AssignedError
    member_id: str = ""
    generation: int = NO_GENERATION
    partitions: tuple[int, ...] = ()
    topic: str = ""
    partition: int = -1
    committed: int = -1
