"""Requests for committed offsets and their responses."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import NamedTuple

from broker.core.groups.records.offsets import CommittedOffset
from broker.model.errors import ErrorCode


class OffsetToCommit(NamedTuple):
    """The next offset to read in one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1  # of OffsetCommit v1; -1: when it is received


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
