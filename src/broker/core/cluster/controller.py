"""The controller: one broker that elects the leaders of all partitions.

It holds no state of its own that matters: whatever happens, it looks at the image again, and
changes what is not as it should be. A controller that has lost its office without knowing it
changes nothing, because every transaction has the guard that the key `controller` is still its own.

    it looks at                 when
    all partitions              it takes office; a broker is registered, drains, or has gone
    partitions of a topic       it is created, enlarged or deleted
    one partition               its state has changed; a write of it was refused or may be lost
    internal topics             brokers have changed, or one of these topics
    leaders, for their balance  every `leader.imbalance.check.interval.seconds`
    a deleted topic             it has changed; every DELETED_TOPICS_LOOK_MS

    it finds                    and writes
    a partition                 its next state (`election.py`), or the next step of its
                                reassignment (`reassignment.py`)
    an unbalanced broker        itself as successor, where it is the preferred leader and another
                                broker leads (`balance.py`)
    an internal topic           more replicas for some of its partitions (`growth.py`)
    a state without a topic     its deletion
    a deleted topic             its deletion, once no broker has folders of it or after 7 days

Before an unclean election the driver asks the live replicas how much they have: that with the most
records is elected.

Each change of a state has the guards that its members are what the image says (`eligibility.py`).
Partitions without a live leader come first, then all others. Looking at all partitions takes many
slices, and so does writing: `work` is one slice.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.core.cluster import election, eligibility, reassignment, records
from broker.core.cluster.balance import Balancing, prefer
from broker.core.cluster.eligibility import Known
from broker.core.cluster.growth import Growth, grown
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.machine import Machine
from broker.core.cluster.records import ControllerClaim, PartitionState, Replicas, Transaction
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.cluster.unclean import UncleanElections
from broker.core.cluster.writes import Change, Item, Write
from broker.model.limits import (
    CLUSTER_PARTITIONS_PER_STEP,
    DELETED_TOPIC_DAYS,
    DELETED_TOPICS_LOOK_MS,
)
from broker.storage import metadata
from broker.storage.metadata import Absent, CreatedAt, Delete, Put, Unchanged

_DAY_MS = 86_400_000
_LOOKS_MAX = 16  # slices without a transaction, while there is something to write
# Each is decided to know whether it is urgent.
_PARTITIONS_PER_SLICE = CLUSTER_PARTITIONS_PER_STEP // 2
_DELETED = -1  # instead of a partition: the entry of the deleted topic


class ControllerSettings(NamedTuple):
    """What an operator sets; the same on all brokers."""

    is_shared: bool  # all brokers share one data directory
    is_balancing: bool = True  # auto.leader.rebalance.enable
    imbalance_interval_ms: int = 300_000
    imbalance_percentage: int = 10
    defaults: ReplicaSettings = ReplicaSettings()  # of topics without own ones
    internal_factors: tuple[tuple[str, int], ...] = ()  # internal topics and their replicas


def claim(
    image: ClusterImage, broker_id: int, broker_epoch: int, lease_id: int
) -> Transaction | None:
    """Return the transaction with which a broker takes the vacant office; None: it must not.

    The broker is the controller once `image.is_controller` says so. A draining broker takes the
    office only if no other one runs.
    """
    if image.controller is not None or not image.is_registered(broker_id, broker_epoch):
        return None
    if image.brokers[broker_id].is_draining and any(
        not each.is_draining for each in image.brokers.values()
    ):
        return None
    value = records.controller_value(ControllerClaim(broker_id, broker_epoch))
    return Transaction(
        [
            Absent(records.CONTROLLER),
            CreatedAt(records.broker_key(broker_id), broker_epoch),
        ],
        [Put(records.CONTROLLER, value, lease_id)],
    )


class Controller(Machine):
    """The work of the controller for one term of office."""

    __slots__ = (
        "_asked",
        "_asks_for_ends",
        "_balance_due_ms",
        "_balancing",
        "_deleted_due_ms",
        "_epoch",
        "_factors",
        "_growing",
        "_growth",
        "_is_growth_due",
        "_looks",
        "_most_first",
        "_order",
        "_preferring",
        "_settings",
        "_to_ask",
        "_topic_settings",
        "_unclean",
        "_wall_ms",
        "growths",
    )

    def __init__(
        self,
        image: ClusterImage,
        settings: ControllerSettings,
        now_ms: int,
        wall_ms: int,
        *,
        asks_for_ends: bool = False,
    ) -> None:
        """Begin the term of the controller that the image has.

        Args:
            image: of this broker, which is the controller in office.
            settings: as now; a change begins a new term's object.
            now_ms: of the monotonic clock.
            wall_ms: the wall time.
            asks_for_ends: whether `take_asked` is asked for; else any replica is elected uncleanly.
        """
        assert image.controller is not None
        self._settings = settings
        self._epoch = image.controller.epoch
        super().__init__(image, CreatedAt(records.CONTROLLER, self._epoch))
        self._looks = 0  # slices since the last transaction
        self._balancing: Balancing | None = None
        self._preferring: set[Item] = set()
        self._asks_for_ends = asks_for_ends
        self._to_ask: dict[Item, None] = {}
        self._asked: set[Item] = set()  # to be asked, or asked
        self._most_first: dict[Item, Sequence[int]] = {}  # the answers
        self._unclean = UncleanElections(image)
        self._factors = {} if settings.is_shared else dict(settings.internal_factors)
        self._topic_settings = TopicSettings(image, lambda: settings.defaults)
        self._growth: Growth | None = None
        self.growths = 0  # partitions that were found to get more replicas, until that is logged
        # The replicas that partitions get, until they have them or cannot: a write may be lost.
        self._growing: dict[Item, Replicas] = {}
        self._is_growth_due = bool(self._factors)
        self._order: list[int] = []
        self._wall_ms = wall_ms
        self._balance_due_ms = now_ms + settings.imbalance_interval_ms
        self._deleted_due_ms = now_ms
        self._look_at_everything()

    # ---- what happens
    # ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        return self._epoch

    @property
    def is_in_office(self) -> bool:
        """Whether this term lasts, as far as the image knows."""
        in_office = self._image.controller
        return in_office is not None and in_office.epoch == self._epoch

    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed."""
        self._writes.image_changed()
        self._scan.add_partitions(delta.partitions)
        if delta.brokers:
            self._look_at_everything()
        for topic_id in (*delta.topics, *delta.deleted_topics, *self._configured(delta)):
            self._scan.add_topic(topic_id)
        if self._factors and not self._is_growth_due:
            self._is_growth_due = bool(delta.brokers) or self._has_internal(delta)
        for topic_id in delta.deleted:
            self._writes.mark((topic_id, _DELETED))

    def _configured(self, delta: Delta) -> list[bytes]:
        """Return the topics whose configuration has changed."""
        names = [
            key.removeprefix(metadata.TOPIC_CONFIGS).decode(errors="replace")
            for key in delta.configs
            if key.startswith(metadata.TOPIC_CONFIGS)
        ]
        ids = self._image.topic_ids
        return [ids[each] for each in names if each in ids]

    def _has_internal(self, delta: Delta) -> bool:
        """Return whether any internal topic has changed."""
        ids = self._image.topic_ids
        internal = {ids[name] for name in self._factors if name in ids}
        return not internal.isdisjoint(delta.topics) or any(
            topic_id in internal for topic_id, _ in delta.partitions
        )

    def prefer_leaders(self, items: list[Item]) -> None:
        """Let these partitions be led by their preferred leaders, as an operator asks for."""
        for item in items:
            self._preferring.add(item)
            self._writes.mark(item)

    def take_asked(self) -> list[Item]:
        """Return partitions whose next election is unclean: how much have their replicas?

        None of them is elected before `answered`.
        """
        taken, self._to_ask = list(self._to_ask), {}
        return taken

    def answered(self, most_first: Mapping[Item, Sequence[int]]) -> None:
        """Report the replicas of some partitions, those with the most records first."""
        for item, replicas in most_first.items():
            self._asked.discard(item)
            self._most_first[item] = replicas
            self._writes.mark(item, is_urgent=True)

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Do what is due; call at `due_ms`."""
        self._wall_ms = wall_ms
        self._writes.tick(now_ms)
        if now_ms >= self._balance_due_ms:
            self._balance_due_ms = now_ms + self._settings.imbalance_interval_ms
            if self._settings.is_balancing:
                self._balancing = Balancing(
                    self._image,
                    is_shared=self._settings.is_shared,
                    percentage=self._settings.imbalance_percentage,
                )
        if now_ms >= self._deleted_due_ms:
            self._deleted_due_ms = now_ms + DELETED_TOPICS_LOOK_MS
            for topic_id in self._image.deleted:
                self._writes.mark((topic_id, _DELETED))

    @property
    def due_ms(self) -> int:
        """When to call `tick` next."""
        due_ms = min(self._balance_due_ms, self._deleted_due_ms)
        return due_ms if self._writes.due_ms is None else min(due_ms, self._writes.due_ms)

    # ---- work
    # ---------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do now."""
        return self.is_in_office and (
            self._scan.has_work
            or self._balancing is not None
            or self._growth is not None
            or self._is_growth_due
            or self._writes.has_marked
        )

    def work(self) -> Write | None:
        """Work for one slice, as any machine."""
        if not self.is_in_office:
            return None
        writes = self._writes
        # Full transactions, but no transaction waits until the last of many changes is looked at.
        is_full = writes.has_many_urgent or (self._looks >= _LOOKS_MAX and writes.has_marked)
        if self._scan.has_work and not is_full:
            self._looks += 1
            for item in self._scan.next(_PARTITIONS_PER_SLICE):
                self._mark(item)
        elif writes.has_marked:
            self._looks = 0
            return writes.take()
        elif self._balancing is not None:
            self.prefer_leaders(self._balancing.next())
            if not self._balancing.has_work:
                self._balancing = None
        elif self._growth is not None or self._is_growth_due:
            self._grow()
        return None

    def _grow(self) -> None:
        """Search for partitions of internal topics with too few replicas, for one slice."""
        if self._growth is None:
            self._is_growth_due = False
            self._growing.clear()
            self._growth = Growth(self._image, self._factors)
        for item, replicas in self._growth.next().items():
            self._growing[item] = replicas
            self.growths += 1
            self._writes.mark(item)
        if not self._growth.has_work:
            self._growth = None

    def applied(self, write: Write, revision: int) -> None:
        """Report that the store has applied a transaction."""
        super().applied(write, revision)
        self._unclean.applied(write.items)

    # ---- decisions
    # ---------------------------------------------------------------------------------------------

    def _look_at_everything(self) -> None:
        self._order = sorted(self._image.brokers)
        self._scan.add_all()

    def _mark(self, item: Item) -> None:
        """Let a partition be written if it is not as it should be."""
        topic_id, partition = item
        found = eligibility.known(self._image, topic_id, partition)
        if found is None:
            self._writes.mark(item)
            return
        state, changed = found.state, self._next_state(found, item)
        if changed is not None:
            is_urgent = (changed.leader, changed.broker_epoch) != (state.leader, state.broker_epoch)
            self._writes.mark(item, is_urgent=is_urgent)

    def _decide(self, item: Item) -> Change | None:
        topic_id, partition = item
        if partition == _DELETED:
            return self._decide_deleted(topic_id)
        found = eligibility.known(self._image, topic_id, partition)
        self._unclean.decided_again(item, None if found is None else found.state)
        if found is None:
            self._preferring.discard(item)
            self._growing.pop(item, None)
            guard = self._image.guard(topic_id, partition)
            has_key = topic_id not in self._image.topics and isinstance(guard, Unchanged)
            return ((guard,), Delete(guard.key)) if has_key else None
        changed = self._next_state(found, item)
        most_first = self._most_first.pop(item, ())
        if changed is not None and _is_unclean(found, changed) and not self._settings.is_shared:
            self._unclean.decided(item, found.state, changed, most_first)
        target = self._growing.get(item)
        if changed is None and target is not None:
            changed = grown(found, target)
            if changed is None:
                del self._growing[item]
        if item in self._preferring:
            self._preferring.discard(item)
            if changed is None:
                changed = prefer(self._image, item, found, is_shared=self._settings.is_shared)
        if changed is None:
            return None
        return eligibility.change(self._image, item, found, changed)

    def _decide_deleted(self, topic_id: bytes) -> Change | None:
        stored = self._image.deleted.get(topic_id)
        if stored is None or stored.topic.pending is None:
            return None
        age_ms = self._wall_ms - stored.topic.deleted_ms
        if stored.topic.pending and age_ms < DELETED_TOPIC_DAYS * _DAY_MS:
            return None
        key = metadata.deleted_topic_key(topic_id)
        return (Unchanged(key, stored.mod_revision),), Delete(key)

    def _next_state(self, found: Known, item: Item) -> PartitionState | None:
        if self._settings.is_shared:
            return election.next_state(found, others=self._others(item))
        settings = self._topic_settings.topic(item[0])
        most_first = self._most_first.get(item, ())
        changed = election.next_state(found, settings, most_first=most_first)
        if (
            self._asks_for_ends
            and not most_first
            and changed is not None
            and _is_unclean(found, changed)
        ):
            if item not in self._asked:
                self._asked.add(item)
                self._to_ask[item] = None
            changed = election.next_state(found, settings._replace(is_unclean_allowed=False))
        return reassignment.advanced(found, settings) if changed is None else changed

    def _others(self, item: Item) -> list[int]:
        """Return all brokers: the partition's first one, then the others by turns."""
        topic_id, partition = item
        order = self._order
        if not order:
            return []
        first = (topic_id[-1] + partition) % len(order)
        others = order[first:] + order[:first]
        replicas = self._image.topics[topic_id].record.replicas
        return [replicas[partition][0], *others] if replicas else others


def _is_unclean(found: Known, changed: PartitionState) -> bool:
    return not election.has_leader(found) and election.is_unclean(found, changed.leader)
