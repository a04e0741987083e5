"""The rows that several verbs of groups print: the lag by partition, and members."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.cli.partitions import partition_text
from broker.client.lag import existing, lags
from broker.client.offsets import committed_offsets
from broker.model.clock import SystemClock

if TYPE_CHECKING:
    from broker.client.groups import Group, Member
    from broker.client.metadata import Cluster, Partition


class PartitionLag(NamedTuple):
    """A partition that a group reads.

    Attributes:
        group: the group.
        topic: the topic.
        partition: its number.
        committed: the next offset to read; null: nothing is committed.
        start: the first offset of the log.
        end: the offset after the last record.
        lag: how many records are not read yet.
        lag_seconds: the age of the first of them; 0 without a lag, null if it is not known.
        deleted: how many records retention deleted before the group has read them.
        retention_percent: how much of the log is not read; at 100 retention deletes unread records.
        member_id: the member that has the partition; null: none.
        client_id: of that member.
        host: of that member.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    start: int
    end: int
    lag: int
    lag_seconds: float | None
    deleted: int
    retention_percent: float
    member_id: str | None
    client_id: str | None
    host: str | None


LAG_COLUMNS = (
    "group",
    "topic",
    "partition",
    "committed",
    "end",
    "lag",
    "lag_seconds",
    "retention_percent",
    "client_id",
    "host",
)


class MemberRow(NamedTuple):
    """A member of a group.

    Attributes:
        member_id: its id.
        instance_id: group.instance.id of a static member.
        client_id: its client.id.
        host: where it connects from.
        epoch: of a member of a consumer group.
        subscribed: topics, and a regular expression between slashes.
        assigned: the partitions that it has, as TOPIC-PARTITION.
        target: the partitions that it is to have after the rebalance; null of classic groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    subscribed: list[str]
    assigned: list[str]
    target: list[str] | None


def member_row(member: "Member") -> MemberRow:
    """Return a member as it is printed."""
    return MemberRow(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.host,
        member.epoch,
        list(member.subscribed),
        [partition_text(each) for each in member.assigned],
        None if member.target is None else [partition_text(each) for each in member.target],
    )


def owners(group: "Group") -> "Mapping[Partition, Member]":
    """Return who has each partition."""
    return {partition: each for each in group.members for partition in each.assigned}


def partition_lags(
    cluster: "Cluster",
    group: "Group",
    topics: "tuple[str, ...]" = (),
    *,
    with_time: bool = True,
) -> Iterator[PartitionLag]:
    """Yield the lag in all partitions with a committed offset or a member, or of some topics."""
    having = owners(group)
    offsets = {**dict.fromkeys(having, None), **committed_offsets(cluster, group.group)}
    known = cluster.existing_topics({topic for topic, _ in offsets}) if offsets else {}
    wanted = {
        key: offset
        for key, offset in existing(offsets, known).items()
        if not topics or key[0] in topics
    }
    found = lags(cluster, wanted, known, SystemClock().wall_ms(), with_time=with_time)
    for (topic, partition), lag in found.items():
        member = having.get((topic, partition))
        yield PartitionLag(
            group.group,
            topic,
            partition,
            lag.committed,
            lag.start,
            lag.end,
            lag.records,
            lag.seconds,
            lag.deleted,
            lag.retention_percent,
            member.member_id if member else None,
            member.client_id if member else None,
            member.host if member else None,
        )
