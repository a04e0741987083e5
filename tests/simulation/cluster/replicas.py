"""Logs of replicas in a simulated cluster: on disks, and what a leader knows of its followers.

Everything in a log is durable: a follower asks for more only from there on. A record is a number;
an entry is the leader epoch in which it was appended, and the record. Entries with the same epoch
come from one leader, so two logs that have an entry in common at a place are equal up to it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.cluster.records import NO_EPOCH, Replicas

Item = tuple[bytes, int]
Entry = tuple[int, int]


class Replica:
    """One partition's log on one disk."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.watermark = 0
        self.version = 0  # of what a follower has, for late answers

    def cut(self, end: int) -> None:
        del self.entries[end:]
        self.watermark = min(self.watermark, end)
        self.version += 1

    def append(self, entries: list[Entry], watermark: int) -> None:
        self.entries += entries
        self.watermark = max(self.watermark, min(watermark, len(self.entries)))
        self.version += bool(entries)

    def has(self, entries: list[Entry]) -> bool:
        """Return whether the log begins with these."""
        return self.entries[: len(entries)] == entries


@dataclass
class Disk:
    """A broker's data directory; another one when it was emptied."""

    intact_since: int = NO_EPOCH
    replicas: dict[Item, Replica] = field(default_factory=dict)

    def replica(self, item: Item) -> Replica:
        """Return a partition's log, at first an empty one."""
        return self.replicas.setdefault(item, Replica())


@dataclass
class Follower:
    """What a leader knows of a follower."""

    caught_up_ms: int
    epoch: int = NO_EPOCH
    position: int = 0


class Request(NamedTuple):
    """What a follower asks of a leader."""

    item: Item
    replica_id: int
    replica_epoch: int
    leader_epoch: int
    log: list[Entry]
    version: int


class Answer(NamedTuple):
    """What it gets."""

    item: Item
    leader_epoch: int
    version: int
    end: int  # below which both logs are equal
    entries: list[Entry]
    watermark: int


class Leading:
    """One leadership of a partition: it acknowledges what all of the maximal ISR have."""

    def __init__(self, own_id: int, replica: Replica, leader_epoch: int, now_ms: int) -> None:
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.maximal: Replicas = ()
        self.committed = 0
        self.watermark = replica.watermark
        self._own_id = own_id
        self._start = len(replica.entries)
        self._since_ms = now_ms
        self._followers: dict[int, Follower] = {}
        self._reported: set[int] = set()  # as caught up

    def set_isr(self, maximal: Replicas, committed: int) -> None:
        self.maximal, self.committed = maximal, committed
        self._reported.intersection_update(maximal)

    def note(self, request: Request, end: int, now_ms: int) -> bool:
        """Note what a follower has; return whether it is to be reported as caught up."""
        follower = self._follower(request.replica_id)
        follower.epoch, follower.position = request.replica_epoch, end
        if end == len(self.replica.entries):
            follower.caught_up_ms = now_ms
        known = self._reported.union(self.maximal)
        if request.replica_id in known or not self.is_in_sync(request.replica_id, follower.epoch):
            return False
        self._reported.add(request.replica_id)
        return True

    def is_in_sync(self, replica_id: int, epoch: int) -> bool:
        follower = self._follower(replica_id)
        return follower.epoch == epoch and follower.position >= max(self.watermark, self._start)

    def advance(self, min_isr: int) -> bool:
        """Move the high watermark; return whether it has."""
        if self.committed < min_isr:
            return False
        ends = [len(self.replica.entries)]
        ends += [self._follower(each).position for each in self.maximal if each != self._own_id]
        if min(ends) <= self.watermark:
            return False
        self.watermark = self.replica.watermark = min(ends)
        return True

    def lagging(self, now_ms: int, lag_ms: int) -> list[int]:
        """Return the members that have not been at the end for so long."""
        return [
            each
            for each in self.maximal
            if each != self._own_id
            and self._follower(each).position < len(self.replica.entries)
            and now_ms - self._follower(each).caught_up_ms > lag_ms
        ]

    def _follower(self, replica_id: int) -> Follower:
        return self._followers.setdefault(replica_id, Follower(self._since_ms))


def common(one: list[Entry], other: list[Entry]) -> int:
    """Return up to where two logs are equal."""
    end = min(len(one), len(other))
    while end and one[end - 1] != other[end - 1]:
        end -= 1
    return end
