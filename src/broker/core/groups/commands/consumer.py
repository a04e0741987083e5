"""Requests to consumer groups and their responses (KIP-848), independent of the wire format.

A field that is None has not changed since the member's last request that had it.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from broker.core.groups.records.consumer import (
    ConsumerMember,
    CurrentAssignment,
    Partitions,
)
from broker.model.errors import ErrorCode

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2  # a static member leaves temporarily and keeps its partitions


class ConsumerGroupState(Enum):
    """The states of a consumer group; the values are those of ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target is older than the group epoch
    RECONCILING = "Reconciling"  # a member has not reached its target yet
    STABLE = "Stable"


class ConsumerHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat request: a member joins, changes, stays or leaves.

    `fresh_id` is the id for a member that has none yet; it is an argument because a state machine
    draws no random numbers. `may_describe` tells whether a pattern of the member may match a topic;
    None: any.
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
    may_describe: Callable[[str], bool] | None = None

    @property
    def is_full(self) -> bool:
        """Whether it has all fields, as when members join and after an error."""
        says_topics = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and says_topics and self.owned is not None


class ConsumerHeartbeatResponse(NamedTuple):
    """A member's epoch and assignment; the latter only if the member may not know it."""

    error: ErrorCode
    message: str = ""
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class DescribedConsumerMember(NamedTuple):
    """A member in ConsumerGroupDescribe."""

    member: ConsumerMember
    current: CurrentAssignment
    target: Partitions


class ConsumerGroupDescription(NamedTuple):
    """A group in ConsumerGroupDescribe."""

    error: ErrorCode
    group_id: str
    message: str = ""
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
    topic_names: Mapping[bytes, str] = MappingProxyType({})
