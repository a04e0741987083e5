"""What can be asked of a consumer group, and the answers (KIP-848), in words that no protocol owns.

A field that is None has not changed since the member said it last.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from broker.core.groups.consumer.records import (
    ConsumerMember,
    CurrentAssignment,
    Partitions,
)
from broker.model import limits
from broker.model.errors import ErrorCode
from broker.model.settings import GROUP_SETTINGS

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # a static member goes for a while: its partitions wait for it


class ConsumerGroupState(Enum):
    """The states of a consumer group; the values are what tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the group has changed, its target has not yet
    RECONCILING = "Reconciling"  # members are on their way to the target
    STABLE = "Stable"


class MigrationPolicy(Enum):
    """Which groups change their protocol while members are live."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group again."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


def default_of_groups(_group_id: str, name: str) -> int:
    """What a group key stands for where nobody has given it a value."""
    default = GROUP_SETTINGS[name].setting.default
    assert type(default) is int  # every one that a group goes by is
    return default


class ConsumerSettings(NamedTuple):
    """What an operator may move, in Kafka's words (group.consumer.*)."""

    # What is in force for one group, by its key (consumer.*).
    group_setting: Callable[[str, str], int] = default_of_groups
    members_max: int = limits.MEMBERS_PER_GROUP_MAX
    assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


class ConsumerHeartbeat(NamedTuple):
    """A member joins, says what has changed, what it owns, that it is alive, or that it leaves.

    `fresh_id` is the id of a member that has none yet; it comes from outside because a machine
    draws no random numbers.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = False
    fresh_id: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as members do when they join and after an error."""
        says_topics = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and says_topics and self.owned is not None


class ConsumerHeartbeatResponse(NamedTuple):
    """What a member has now; the assignment only when the member may not know it."""

    error: ErrorCode
    message: str = ""
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class DescribedConsumerMember(NamedTuple):
    """A member as an administrator sees it."""

    member: ConsumerMember
    current: CurrentAssignment
    target: Partitions


class ConsumerGroupDescription(NamedTuple):
    """A consumer group as an administrator sees it."""

    error: ErrorCode
    group_id: str
    message: str = ""
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
    topic_names: Mapping[bytes, str] = MappingProxyType({})
