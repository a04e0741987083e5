"""Why a group does not consume: what two looks at it tell, each with what to do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.cli.checks import OK, PROBLEM, WARNING
from broker.cli.partitions import partition_text
from broker.cli.times import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from broker.client.groups import Group
    from broker.client.lag import Lag
    from broker.client.metadata import Partition

_NEAR_DELETION_PERCENT: Final = 80
_STABLE: Final = "Stable"


class Finding(NamedTuple):
    """Something that is so.

    Attributes:
        subject: the group, a member, a topic or TOPIC-PARTITION.
        severity: problem (it keeps the group from consuming, or has lost records), warning, or ok.
        reason: what is so.
        fix: what to do; "" if nothing is to be done.
    """

    subject: str
    severity: str
    reason: str
    fix: str


class Facts(NamedTuple):
    """One look at a group.

    Attributes:
        group: its state and members.
        committed: its offsets.
        lags: of partitions that exist and have a leader.
        stable: their last stable offsets.
        existing: all partitions of its topics.
        led: those of them that have a leader.
        missing_topics: topics with offsets or subscriptions that do not exist.
    """

    group: "Group"
    committed: "Mapping[Partition, int]"
    lags: "Mapping[Partition, Lag]"
    stable: "Mapping[Partition, int]"
    existing: "AbstractSet[Partition]"
    led: "AbstractSet[Partition]"
    missing_topics: "AbstractSet[str]"


def findings(earlier: Facts, now: Facts, seconds: float) -> list[Finding]:
    """Return what two looks with a time between them tell; problems first.

    Args:
        earlier: the first look.
        now: the second; the same one if there was no time between.
        seconds: the time between.
    """
    found = [
        *_state(earlier, now, seconds),
        *_topics(now),
        *_members(now),
        *_offsets(now),
        *_progress(earlier, now, seconds),
    ]
    if not any(each.severity != OK for each in found):
        lag = sum(each.records for each in now.lags.values())
        name = now.group.group
        found.append(Finding(name, OK, f"it consumes; {lag} records are left to read", ""))
    order = (PROBLEM, WARNING, OK)
    return sorted(found, key=lambda each: order.index(each.severity))


def _state(earlier: Facts, now: Facts, seconds: float) -> Iterator[Finding]:
    group = now.group
    if not group.members:
        yield Finding(
            group.group,
            PROBLEM,
            f"it has no members: no consumer with group.id={group.group} is connected",
            "start its consumers; if they run, compare their bootstrap.servers and group.id, and"
            " look for errors in their logs",
        )
    elif _STABLE not in {group.state, earlier.group.state}:
        waiting = [
            each.client_id
            for each in group.members
            if each.target is not None and each.target != each.assigned
        ]
        who = f"; members that have not followed: {', '.join(waiting[:5])}" if waiting else ""
        lasting = f" for {seconds:g} s and more" if seconds else ""
        yield Finding(
            group.group,
            PROBLEM if seconds else WARNING,
            f"it is rebalancing ({group.state}){lasting}: members join or leave all the time, or"
            f" one does not answer{who}",
            "look for members that restart, or that take longer than max.poll.interval.ms for what"
            " they have polled; raise it, or lower max.poll.records",
        )


def _topics(now: Facts) -> Iterator[Finding]:
    for name in sorted(now.missing_topics):
        if any(name in each.subscribed for each in now.group.members):
            yield Finding(
                name,
                PROBLEM,
                "the topic does not exist, but a member subscribes to it",
                f"broker topic create {name}, or correct the subscription",
            )
        else:
            yield Finding(
                name,
                WARNING,
                "the topic does not exist, but there are offsets of it",
                "they expire; after a deletion of the topic nothing is to be done",
            )
    for key in sorted(now.existing - now.led):
        yield Finding(
            partition_text(key),
            PROBLEM,
            "the partition has no leader: nobody can read it",
            "broker cluster health says which brokers are missing: start them",
        )


def _members(now: Facts) -> Iterator[Finding]:
    group = now.group
    if group.state != _STABLE:
        return
    assigned = {key for each in group.members for key in each.assigned}
    subscribed = {topic for each in group.members for topic in each.subscribed}
    idle = [each for each in group.members if not each.assigned]
    for each in idle:
        yield Finding(
            each.client_id or each.member_id,
            WARNING,
            f"the member at {each.host} has no partition: there are {len(group.members)} members"
            f" for {len(assigned)} partitions",
            "add partitions (broker topic alter --partitions), or stop it; a spare member is fine",
        )
    for key in sorted(now.existing - assigned):
        if key[0] in subscribed:
            yield Finding(
                partition_text(key),
                PROBLEM,
                "members subscribe to its topic, but none has the partition",
                "restart the group's leader, so that it assigns all partitions; check its"
                " partition.assignment.strategy",
            )


def _offsets(now: Facts) -> Iterator[Finding]:
    name = now.group.group
    for key, lag in sorted(now.lags.items()):
        text = partition_text(key)
        seek = f"broker group seek {name} {key[0]}:{key[1]}"
        if lag.committed is not None and lag.committed > lag.end:
            yield Finding(
                text,
                PROBLEM,
                f"the committed offset {lag.committed} is after the end {lag.end} of the log: the"
                " topic was created again, or has lost records",
                f"stop the consumers, then {seek} --to-earliest (or --to-latest); without it"
                " auto.offset.reset decides",
            )
        elif lag.deleted:
            yield Finding(
                text,
                PROBLEM,
                f"{lag.deleted} records were deleted before the group has read them: it is behind"
                " retention",
                f"raise retention.ms or retention.bytes of {key[0]}, or add consumers; the group"
                f" goes on where auto.offset.reset says, or {seek} --to-earliest",
            )
        # Retention has deleted nothing of a log that starts at 0: that log is only young.
        elif lag.start and lag.retention_percent >= _NEAR_DELETION_PERCENT:
            yield Finding(
                text,
                WARNING,
                f"{lag.retention_percent:g} % of the log are not read: retention deletes the next"
                " records soon",
                f"add consumers, or raise retention.ms or retention.bytes of {key[0]}",
            )
        stable = now.stable[key]
        if stable < lag.end and lag.records and (lag.committed or 0) >= stable:
            yield Finding(
                text,
                WARNING,
                f"a transaction is open since offset {stable}: consumers with"
                f" isolation.level=read_committed wait for its end, {lag.end - stable} offsets"
                " before the end of the log",
                f"broker txn producers {key[0]}:{key[1]} shows whose it is; broker txn abort ends"
                " one that hangs",
            )


def _progress(earlier: Facts, now: Facts, seconds: float) -> Iterator[Finding]:
    owners = {key: each for each in now.group.members for key in each.assigned}
    for key, lag in sorted(now.lags.items()):
        member = owners.get(key)
        if not seconds or member is None or not lag.records or key not in earlier.lags:
            continue
        if earlier.lags[key].committed == lag.committed:
            age = "" if lag.seconds is None else f", the oldest {duration_text(lag.seconds)} old"
            yield Finding(
                partition_text(key),
                WARNING,
                f"{member.client_id} at {member.host} has committed nothing for {seconds:g} s, with"
                f" {lag.records} records to read{age}",
                "look at its log and its threads: it is stuck in a record, slow, or does not commit"
                " (enable.auto.commit=false without commits); --wait longer tells more",
            )
