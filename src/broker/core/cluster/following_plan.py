"""Which broker each followed partition is copied from, and when that is tried again.

    the partition                  its source
    is followed, led elsewhere     the leader's broker, as long as the incarnation that was elected
                                   is registered
    has failed                     none for REPLICA_RETRY_MS, which doubles; or until the image has
                                   another leader or epoch for it
    is held: it is truncated       none
    is led here, or by nobody      none

The driver takes the changes of sources in slices. A partition may be taken with the source that it
had: it has been followed again, released or tried again, and is to be copied anew.
"""

import heapq
from typing import NamedTuple

from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster.scan import Scan
from broker.core.cluster.unique_queue import UniqueQueue
from broker.core.cluster.writes import Item
from broker.model.limits import (
    CLUSTER_PARTITIONS_PER_STEP,
    REPLICA_RETRY_MS,
    REPLICA_RETRY_MS_MAX,
)

_FORGIVEN_MS = 10 * REPLICA_RETRY_MS_MAX  # without a failure: the next one is the first


class Source(NamedTuple):
    """From where a partition is copied."""

    leader: int
    epoch: int  # of the leader


class _Followed:
    """What is known of one partition."""

    __slots__ = ("due_ms", "failed_ms", "failures", "is_held", "is_new", "leader", "source")

    def __init__(self) -> None:
        self.source: Source | None = None  # as the driver knows it
        self.leader = NO_LEADER  # by the image, whether it is registered or not
        self.is_held = False
        self.is_new = True  # to be copied anew, even from the same source
        self.failures = 0
        self.failed_ms = 0
        self.due_ms: int | None = None  # after a failure


class FollowingPlan:
    """The followed partitions of this broker."""

    __slots__ = ("_broker_id", "_changed", "_due", "_followed", "_image", "_led_by", "_scan")

    def __init__(self, image: ClusterImage, broker_id: int) -> None:
        """Begin without any."""
        self._image = image
        self._broker_id = broker_id
        self._followed: dict[Item, _Followed] = {}
        self._led_by: dict[int, set[Item]] = {}
        self._changed: UniqueQueue[Item] = UniqueQueue()
        self._scan = Scan(image)  # for those that are followed
        self._due: list[tuple[int, Item]] = []  # a heap; a time that is not the item's is void

    # ---- what happens
    # ---------------------------------------------------------------------------------------------

    def followed(self, item: Item) -> None:
        """Copy a partition, or copy it anew: its log has changed."""
        self._begin(item, self._followed.setdefault(item, _Followed()))

    def unfollowed(self, item: Item) -> None:
        """Copy a partition no more; the driver has ended that already."""
        known = self._followed.pop(item, None)
        if known is not None:
            self._leave(known.leader, item)

    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed."""
        self._scan.add_partitions(delta.partitions)
        for topic_id in delta.topics:
            self._scan.add_topic(topic_id)
        for broker_id in delta.brokers:
            self._scan.add_partitions(list(self._led_by.get(broker_id, ())))

    def hold(self, item: Item) -> None:
        """Copy a partition not before `release`: a thread works on its log."""
        known = self._followed.get(item)
        if known is not None:
            known.is_held = True
            known.source = None

    def release(self, item: Item) -> None:
        """Copy a partition again."""
        known = self._followed.get(item)
        if known is not None:
            known.is_held = False
            self._begin(item, known)

    def failed(self, item: Item, now_ms: int) -> int:
        """Copy a partition again in a while: its leader or its log has refused that.

        The driver has ended its copying, or what it held it for. Return how often it has failed in
        a row.
        """
        known = self._followed.get(item)
        if known is None:
            return 0
        known.is_held = False
        if now_ms - known.failed_ms > _FORGIVEN_MS:
            known.failures = 0
        pause_ms = min(REPLICA_RETRY_MS << min(known.failures, 16), REPLICA_RETRY_MS_MAX)
        known.failures += 1
        known.failed_ms = now_ms
        known.due_ms = now_ms + pause_ms
        heapq.heappush(self._due, (known.due_ms, item))
        return known.failures

    # ---- what follows from it
    # ---------------------------------------------------------------------------------------------

    def source(self, item: Item) -> Source | None:
        """Return where a partition is copied from, as the driver knows it."""
        known = self._followed.get(item)
        return None if known is None else known.source

    @property
    def has_work(self) -> bool:
        """Whether `take` has something to return now."""
        return bool(self._changed) or self._scan.has_work

    @property
    def due_ms(self) -> int | None:
        """When to call `tick` next; None: not before another call."""
        return self._due[0][0] if self._due else None

    def tick(self, now_ms: int) -> None:
        """Let some partitions be copied again whose time has come: as many as take 1 ms."""
        for _ in range(CLUSTER_PARTITIONS_PER_STEP):
            if not self._due or self._due[0][0] > now_ms:
                break
            due_ms, item = heapq.heappop(self._due)
            known = self._followed.get(item)
            if known is not None and known.due_ms == due_ms:
                self._begin(item, known)

    def take(self) -> list[tuple[Item, Source | None]]:
        """Return some changes, as many as are made in 2 ms: from where to copy, None: nowhere."""
        changes: list[tuple[Item, Source | None]] = []
        if self._scan.has_work:
            for item in self._scan.next():
                if item in self._followed:
                    self._changed.add(item)
            return changes
        for _ in range(min(len(self._changed), CLUSTER_PARTITIONS_PER_STEP)):
            item = self._changed.popleft()
            known = self._followed.get(item)
            if known is None:
                continue
            wanted = self._wanted(item, known)
            is_same = wanted == known.source and (wanted is None or not known.is_new)
            if known.is_held or is_same:
                continue
            known.is_new = False
            known.due_ms = None
            known.source = wanted
            changes.append((item, wanted))
        return changes

    def _begin(self, item: Item, known: _Followed) -> None:
        known.is_new = True
        known.due_ms = None
        self._changed.add(item)

    def _wanted(self, item: Item, known: _Followed) -> Source | None:
        """Return the source of a partition by the image."""
        state = self._image.state(*item)
        leader = NO_LEADER if state is None else state.leader
        if leader != known.leader:
            self._leave(known.leader, item)
            known.leader = leader
            if leader != NO_LEADER:
                self._led_by.setdefault(leader, set()).add(item)
        if state is None or leader in (NO_LEADER, self._broker_id):
            return None
        if not self._image.is_registered(leader, state.broker_epoch):
            return None
        return Source(leader, state.leader_epoch)

    def _leave(self, leader: int, item: Item) -> None:
        items = self._led_by.get(leader)
        if items is not None:
            items.discard(item)
            if not items:
                del self._led_by[leader]
