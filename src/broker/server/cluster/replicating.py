"""Copies the partitions that other brokers lead: one link per leader, and what its events ask for.

The plan (core/cluster/following_plan) says from whom each followed partition is copied. A link's
fetcher does so natively, until it has an event:

    the leader's log has another history   the log is truncated to where both are the same
    the leader's log begins after its end  the log is begun anew there; also when the log is empty
                                           and begins after the leader's end
    its records are of an earlier epoch    the epoch in which this broker has led without a record,
    than that of an empty log              after its log was begun anew, is forgotten
    the leader or the log refuses          it is tried again in a while, or when the image changes

A log is truncated by a thread, while it is held: nobody copies or uses it.

A log of which the disk has lost or damaged records is cut before them, and copied again from there:
others have what is after the damage, too. If this broker counts as a member that has all of it, or
may be about to be one, it registers anew first, with a directory that is not intact
(core/cluster/eligibility.py): nobody may rely on a copy that is going to be cut.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from broker._native.replication.fetcher import ReplicaEvent
from broker.core.cluster.eligibility import counts
from broker.core.cluster.following_plan import FollowingPlan, Source
from broker.core.cluster.image import Delta
from broker.core.cluster.records import NO_EPOCH
from broker.core.cluster.writes import Item
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.steps import in_steps, next_step
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.server.cluster.node import Node
from broker.server.cluster.replica_link import Fetching, ReplicaLink
from broker.storage.recovery.truncation import cut_point

_EVENTS_PER_STEP = 64
_FAILURES_PER_LINE = 40  # of one partition: about 20 seconds
_log = logging.getLogger(__name__)


class CopiedLog(Protocol):
    """A log that follows, as it is copied: implemented by the native PartitionLog."""

    @property
    def topic(self) -> str:
        """The name of its topic."""

    @property
    def partition(self) -> int:
        """The number of its partition."""

    @property
    def is_follower(self) -> bool:
        """Whether it follows."""

    @property
    def is_loading(self) -> bool:
        """Whether it belongs to a thread."""

    @property
    def known_epoch(self) -> int:
        """The leader epoch of its role."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of its last records."""

    @property
    def high_watermark(self) -> int:
        """The end of what may be read."""

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def first_damage(self) -> int | None:
        """The offset of the first damaged records; None: all are whole."""

    def follow(self, epoch: int) -> None:
        """Follow the leader of an epoch."""

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one, and its end; (-1, -1): there is none."""


class FollowedLogs(Protocol):
    """The logs that follow: implemented by Topics."""

    def when_followed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        """Register a callback for each log that follows from now on, or in another epoch."""

    def when_unfollowed(self, callback: Callable[[Any, bytes, int], None]) -> None:
        """Register a callback for each log that does not follow any more."""


class Cutting(Protocol):
    """What changes a log that follows, in a thread, while nobody else uses it."""

    async def truncate(self, log: Any, offset: int, epoch: int) -> None:  # noqa: ANN401 (a log)
        """Remove everything from an offset on, durably, as the leader of an epoch has it.

        Nothing if the log has another role by then; StorageError: the log is offline.
        """

    async def begin_anew(self, log: Any, offset: int, epoch: int) -> None:  # noqa: ANN401 (a log)
        """Remove everything, and begin at an offset, durably; as `truncate`."""


class Replicating(Service):
    """Everything that this broker copies."""

    name = "copying of partitions from their leaders"
    is_essential = True

    def __init__(
        self,
        node: Node,
        logs: FollowedLogs,
        cutting: Cutting,
        fetching: Fetching,
        lose: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Copy nothing yet.

        Args:
            node: this broker.
            logs: those that follow.
            cutting: truncates them.
            fetching: how they are copied.
            lose: notes durably that the directory has lost records, and lets it register anew;
                None: what this broker registers says nothing of a directory.
        """
        self._node = node
        self._cutting = cutting
        self._fetching = fetching
        self._lose = lose
        # The registration in which the copying of each has ended: leaders have heard of its end.
        self._reported: dict[Item, int] = {}
        self._worthless = NO_EPOCH  # the registration that is ended because of losses
        self._plan = FollowingPlan(node.metadata.image, node.broker_id)
        self._logs: dict[Item, CopiedLog] = {}
        self._items: dict[CopiedLog, Item] = {}
        self._copied: dict[Item, Source] = {}  # of the links, as they were told
        self._links: dict[int, ReplicaLink] = {}
        self._tasks = Tasks()
        self._something = asyncio.Event()  # has happened: there may be work
        logs.when_followed(self._is_followed)
        logs.when_unfollowed(self._is_unfollowed)
        node.metadata.when_changed(self._image_changed)
        node.member.when_phase_changes(self._epoch_changed)

    async def run(self) -> None:
        """Copy until cancelled."""
        while True:
            self._something.clear()
            self._plan.tick(self._node.clock.monotonic_ms())
            await self._work()
            await self._wait(self._plan.due_ms)

    def damaged(self, log: Any) -> None:  # noqa: ANN401 (a log)
        """Copy a log anew in which damage was found: it is cut before it."""
        item = self._items.get(log)
        if item is not None and log.first_damage is not None:
            self._end_copying(item)
            self._plan.followed(item)
            self._something.set()

    async def stop(self) -> None:
        """End all copying: the broker closes its logs next."""
        await self._tasks.stop()
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            await link.close()

    # ---- what happens
    # ---------------------------------------------------------------------------------------------

    def _is_followed(self, log: CopiedLog, topic_id: bytes, partition: int) -> None:
        item = topic_id, partition
        if self._logs.get(item, log) is not log:
            self._plan.unfollowed(item)
        self._forget(item)
        self._logs[item] = log
        self._items[log] = item
        self._plan.followed(item)
        self._something.set()

    def _is_unfollowed(self, _log: CopiedLog, topic_id: bytes, partition: int) -> None:
        item = topic_id, partition
        self._forget(item)
        self._reported.pop(item, None)
        self._plan.unfollowed(item)

    def _forget(self, item: Item) -> None:
        """Copy a log no more, before it gets another role or is closed."""
        self._end_copying(item)
        log = self._logs.pop(item, None)
        if log is not None:
            del self._items[log]

    def _image_changed(self, delta: Delta) -> None:
        self._plan.image_changed(delta)
        for broker_id in delta.brokers:
            if broker_id in self._links:
                self._links[broker_id].hurry()
        self._something.set()

    def _epoch_changed(self) -> None:
        epoch = self._node.member.epoch
        if epoch != NO_EPOCH:
            for link in self._links.values():
                link.fetcher.broker_epoch = epoch
        self._something.set()

    # ---- what is done
    # ---------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._take_events()
            # A leader refuses what is not registered.
            if not self._plan.has_work or self._node.member.epoch == NO_EPOCH:
                break
            for item, source in self._plan.take():
                self._copy(item, source)
            await next_step()
        for link in [each for each in self._links.values() if each.is_empty]:
            del self._links[link.leader]
            await link.close()

    async def _wait(self, due_ms: int | None) -> None:
        seconds = None if due_ms is None else (due_ms - self._node.clock.monotonic_ms()) / 1000
        await is_set_within(self._something, seconds)

    def _copy(self, item: Item, source: Source | None) -> None:
        """Copy a partition from a source, or from nowhere."""
        log = self._logs[item]
        before = self._copied.get(item)
        if before is not None and (source is None or before.leader != source.leader):
            self._end_copying(item)
        if source is None:
            return
        epoch_min = max(log.known_epoch, log.leader_epoch)
        if not log.is_follower or log.is_loading or source.epoch < epoch_min:
            # Its role is changing: it is reported again, or the image is not of the same time.
            self._end_copying(item)
            self._plan.failed(item, self._node.clock.monotonic_ms())
            return
        log.follow(source.epoch)
        damage = log.first_damage
        if damage is not None:
            self._end_copying(item)
            self._repair(item, log, damage)
            return
        self._link(source.leader).add(log, item, source.epoch)
        self._copied[item] = source

    def _end_copying(self, item: Item) -> None:
        source = self._copied.pop(item, None)
        if source is None:
            return
        self._reported[item] = self._node.member.epoch
        link = self._links.get(source.leader)
        if link is not None:
            link.remove(item)

    def _link(self, leader: int) -> ReplicaLink:
        link = self._links.get(leader)
        if link is None:
            link = self._links[leader] = ReplicaLink(
                leader,
                self._fetching,
                self._node.member.epoch,
                self._something.set,
            )
        return link

    # ---- events
    # ---------------------------------------------------------------------------------------------

    async def _take_events(self) -> None:
        for link in list(self._links.values()):
            events = link.fetcher.take_events()
            async for kind, log, epoch, first, second in in_steps(events, _EVENTS_PER_STEP):
                if log is None:
                    _log.warning(
                        "a leader knows another registration of this broker: leader=%d", link.leader
                    )
                    continue
                item = self._items.get(log)
                if item is not None and self._copied.get(item) == (link.leader, epoch):
                    # (It may be copied again already, if it was reported anew meanwhile.)
                    self._end_copying(item)
                    self._handle(link.leader, item, (kind, first, second))

    def _handle(self, leader: int, item: Item, event: tuple[ReplicaEvent, int, int]) -> None:
        """Handle the event of a partition whose copying has ended with it."""
        log = self._logs[item]
        kind, first, second = event
        if kind is ReplicaEvent.DIVERGING and second >= 0:
            offset = cut_point(log, first, second)
            _log.info(
                "a replica and its leader have different histories: topic=%s partition=%d leader=%d"
                " offset=%d high_watermark=%d end_offset=%d",
                *(log.topic, log.partition, leader, offset, log.high_watermark, log.log_end_offset),
            )
            self._cut(item, log, self._cutting.truncate, offset)
        elif kind is ReplicaEvent.OUT_OF_RANGE and must_begin_at(log, first):
            _log.warning(
                "a replica begins anew where its leader does: topic=%s partition=%d leader=%d"
                " end_offset=%d leader_start=%d",
                *(log.topic, log.partition, leader, log.log_end_offset, first),
            )
            self._cut(item, log, self._cutting.begin_anew, first)
        elif kind is ReplicaEvent.CORRUPT and has_epoch_without_records(log):
            self._cut(item, log, self._cutting.truncate, log.log_end_offset)
        else:
            failures = self._plan.failed(item, self._node.clock.monotonic_ms())
            is_first = failures == 1 and kind in {ReplicaEvent.CORRUPT, ReplicaEvent.GAP}
            _log.log(
                logging.WARNING
                if is_first or failures % _FAILURES_PER_LINE == 0
                else logging.DEBUG,
                "partition not copied, tried again: topic=%s partition=%d leader=%d reason=%s"
                " number=%d failures=%d",
                *(log.topic, log.partition, leader, kind.value, first, failures),
            )
            if failures == 1 and kind is ReplicaEvent.GAP and _is_emptied(log):
                # It was begun at a log start within a batch (by a recovery that has found nothing
                # else), and copies are of whole batches. The leader says where they begin.
                self._cut(item, log, self._cutting.begin_anew, 0)

    # ---- damage
    # ---------------------------------------------------------------------------------------------

    def _repair(self, item: Item, log: CopiedLog, damage: int) -> None:
        """Cut a log before its first damage, once nobody relies on what it has."""
        image, epoch = self._node.metadata.image, self._node.member.epoch
        if not image.is_registered(self._node.broker_id, epoch):
            self._plan.failed(item, self._node.clock.monotonic_ms())
        elif self._lose is not None and (
            self._reported.get(item) == epoch or counts(image, item, self._node.broker_id)
        ):
            self._plan.failed(item, self._node.clock.monotonic_ms())
            if self._worthless != epoch:
                self._worthless = epoch
                self._tasks.begin(self._register_anew(self._lose))
        else:
            _log.warning(
                "a replica is cut before its damaged records, and copied again from there:"
                " topic=%s partition=%d offset=%d end_offset=%d",
                *(log.topic, log.partition, damage, log.log_end_offset),
            )
            self._cut(item, log, self._cutting.truncate, damage)

    async def _register_anew(self, lose: Callable[[], Awaitable[object]]) -> None:
        try:
            await lose()
        except StorageError as error:
            _log.error("records are lost, which is not noted, tried again: error=%s", error)
            self._worthless = NO_EPOCH

    # ---- cuts
    # ---------------------------------------------------------------------------------------------

    def _cut(
        self, item: Item, log: CopiedLog, cut: Callable[[Any, int, int], Any], offset: int
    ) -> None:
        self._plan.hold(item)
        self._tasks.begin(self._cut_and_release(item, log, cut, (offset, log.known_epoch)))

    async def _cut_and_release(
        self,
        item: Item,
        log: CopiedLog,
        cut: Callable[[Any, int, int], Any],
        where: tuple[int, int],
    ) -> None:
        offset, epoch = where
        has_failed = True
        try:
            await cut(log, offset, epoch)
            has_failed = False
        except StorageError as error:
            _log.error(
                "a replica is not truncated, tried again: topic_id=%s partition=%d error=%s",
                *(id_to_text(item[0]), item[1], error),
            )
        finally:
            if self._logs.get(item) is log:
                if has_failed:  # the disk may be full: not at once
                    self._plan.failed(item, self._node.clock.monotonic_ms())
                else:
                    self._plan.release(item)
                self._something.set()


def has_epoch_without_records(log: CopiedLog) -> bool:
    """Return whether an empty log has an epoch: that of this broker as the leader.

    It asked without an epoch (native replication/fetcher), so the leader could not tell that it has
    records of earlier ones there.
    """
    return _is_emptied(log) and log.leader_epoch > 0


def _is_emptied(log: CopiedLog) -> bool:
    return 0 < log.log_start_offset == log.log_end_offset


def must_begin_at(log: CopiedLog, leader_start: int) -> bool:
    """Return whether a log that its leader has nothing for begins anew at that one's start.

    One that ends exactly there cannot be compared: the leader has deleted all of its last epoch.
    One without records may also have begun after the leader's end: an unclean election has made a
    leader of a broker that has less than the one it was begun anew for.
    """
    if log.log_start_offset == log.log_end_offset:
        return 0 <= leader_start != log.log_end_offset
    return leader_start >= log.log_end_offset
