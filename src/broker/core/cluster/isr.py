"""The leader's part in the ISR of its partitions: it adds who has caught up, removes who lags.

    a follower        event                                  next      the log waits for it
    out of the ISR    `caught_up`                            joining   from `take_changed` on
    joining           `take_changed`, and still in sync      written   yes
    joining           not in sync any more                   out       no
    written           the image has it in the ISR            member    yes
    joining, written  the image has another incarnation of   out       no
                      it, or none; or it is no replica any
                      more, or this broker not the leader,
                      or in another leader epoch
    member            `lagging`                              removed   until the image has it so

The maximal ISR, the stored one and whoever is joining, is what a record has to reach before it is
acknowledged. So whatever becomes of a write, a member of the stored ISR has all of them: a follower
that is `written` stays in it, also when the write was refused or its outcome is unknown, until the
image shows that no write with it can be applied any more.

A log can move its high watermark past a follower until it knows that this one is joining. Therefore
the order, in one callback of the driver, without anything between:

    for each of some events of the logs: caught_up(...) or lagging(...)
    for item in take_changed(): log.set_isr(maximal(item), committed(item))

and `is_in_sync` is asked once more before the first write with a follower. `work` notes changes,
and `take_changed` makes work: the driver calls both until there is none.

Nothing is acknowledged while the ELR has members: they are those that have all that was (KIP-966).
So it does not matter by which version of min.insync.replicas they became that; `committed` is 0.
"""

from collections.abc import Callable

from broker.core.cluster import eligibility
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.machine import BrokerMachine
from broker.core.cluster.records import PartitionState, Replicas, committed
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Change, Item
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP


class _Joining:
    """A follower that is to be added."""

    __slots__ = ("epoch", "is_checked", "leader_epoch")

    def __init__(self, epoch: int, leader_epoch: int) -> None:
        self.epoch = epoch  # of the incarnation that has caught up
        self.leader_epoch = leader_epoch  # in which it has
        self.is_checked = False  # it was in sync when the log waited for it already


class IsrChanges(BrokerMachine):
    """The changes that one incarnation of a broker makes to the ISRs of what it leads."""

    __slots__ = ("_changed", "_is_in_sync", "_joining", "_lagging", "_settings")

    def __init__(
        self,
        image: ClusterImage,
        broker: tuple[int, int],
        settings: TopicSettings,
        is_in_sync: Callable[[Item, int, int], bool],
    ) -> None:
        """Begin without any.

        Args:
            image: of this broker.
            broker: its id and epoch.
            settings: of topics.
            is_in_sync: returns whether a follower, by id and broker epoch, has everything below the
                high watermark and since the beginning of the present leader epoch.
        """
        super().__init__(image, broker)
        self._settings = settings
        self._is_in_sync = is_in_sync
        self._joining: dict[Item, dict[int, _Joining]] = {}
        self._lagging: dict[Item, set[int]] = {}
        self._changed: dict[Item, None] = {}

    # ---- what happens
    # ---------------------------------------------------------------------------------------------

    def caught_up(self, item: Item, replica_id: int, replica_epoch: int) -> None:
        """Note that a follower may be added: an incarnation of it is in sync.

        When it is not added, its log is given the ISR without it, and reports it again.
        """
        state = self._led(item)
        if state is None or replica_id in state.isr:
            return
        self._changed[item] = None
        if self._may_join(state, replica_id, replica_epoch):
            joining = self._joining.setdefault(item, {})
            known = joining.get(replica_id)
            if known is None or not self._still_joins(state, replica_id, known):
                joining[replica_id] = _Joining(replica_epoch, state.leader_epoch)

    def lagging(self, item: Item, replica_id: int) -> None:
        """Note that a member has not been at the log's end for `replica.lag.time.max.ms`."""
        state = self._led(item)
        if state is not None and replica_id in state.isr and replica_id != self._broker_id:
            self._lagging.setdefault(item, set()).add(replica_id)
            self._writes.mark(item)

    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed."""
        self._writes.image_changed()
        self._scan.add_partitions(delta.partitions)
        if delta.brokers or delta.deleted_topics:
            self._scan.add_partitions(list(self._joining))

    # ---- what logs wait for
    # ---------------------------------------------------------------------------------------------

    def take_changed(self) -> list[Item]:
        """Return partitions whose logs have to be given `maximal` and `committed`, at once.

        As many as are given in 1 ms, the newest first; call it until it returns none.
        """
        taken: list[Item] = []
        while self._changed and len(taken) < CLUSTER_PARTITIONS_PER_STEP:
            item, _ = self._changed.popitem()
            taken.append(item)
            if item in self._joining:
                self._writes.mark(item)
        return taken

    def pending(self, item: Item) -> Replicas:
        """Return the followers that are being added."""
        return tuple(self._joining.get(item, ()))

    def maximal(self, item: Item) -> Replicas:
        """Return the ISR and whoever is being added to it."""
        state = self._image.state(*item)
        isr = () if state is None else state.isr
        return isr + tuple([each for each in self.pending(item) if each not in isr])

    def committed(self, item: Item) -> int:
        """Return how many members of the stored ISR have to be enough for min.insync.replicas."""
        state = self._image.state(*item)
        return 0 if state is None else committed(state)

    # ---- decisions
    # ---------------------------------------------------------------------------------------------

    def _may_join(self, state: PartitionState, replica_id: int, epoch: int) -> bool:
        return (
            replica_id in state.replicas
            and replica_id not in state.isr
            and self._image.is_registered(replica_id, epoch)
        )

    def _still_joins(self, state: PartitionState, replica_id: int, joining: _Joining) -> bool:
        """Return whether what a follower has told still counts.

        The image may have learned of several changes at once: another broker has led meanwhile, or
        the replica was removed and added again.
        """
        is_same_epoch = joining.leader_epoch == state.leader_epoch
        return is_same_epoch and self._may_join(state, replica_id, joining.epoch)

    def _look(self, item: Item) -> None:
        """Forget who is a member now, or cannot become one."""
        state = self._led(item)
        if state is None:
            self._joining.pop(item, None)
            self._lagging.pop(item, None)
            self._changed.pop(item, None)
            return
        self._changed[item] = None
        joining = self._joining.get(item)
        if joining is None:
            return
        for each in [*joining]:
            if not self._still_joins(state, each, joining[each]):
                del joining[each]
        if not joining:
            del self._joining[item]

    def _decide(self, item: Item) -> Change | None:
        found = eligibility.known(self._image, *item)
        if found is None or self._led(item) is None:
            return None
        state = found.state
        lagging = self._lagging.pop(item, set())
        kept = [
            each
            for each in state.isr
            if each == self._broker_id or (found.counts(each) and each not in lagging)
        ]
        left = tuple([each for each in state.isr if each not in kept])
        added = self._checked(item, state)
        min_isr = state.min_isr(self._settings.topic(item[0]).min_isr)
        isr, elr = eligibility.without(found, (*kept, *added), left, min_isr)
        if set(isr) == set(state.isr) and set(elr) == set(state.elr):
            return None
        changed = found.next(state._replace(isr=isr, elr=elr), added)
        return eligibility.change(self._image, item, found, changed)

    def _checked(self, item: Item, state: PartitionState) -> list[int]:
        """Return whom to add: those that were in sync when the log waited for them already."""
        joining = self._joining.get(item)
        if joining is None:
            return []
        checked: list[int] = []
        for each, follower in [*joining.items()]:
            if not self._still_joins(state, each, follower):
                continue  # `_look` will forget it
            if not follower.is_checked:
                if item in self._changed:
                    continue  # the log does not wait for it yet; `take_changed` marks it again
                if not self._is_in_sync(item, each, follower.epoch):
                    del joining[each]
                    self._changed[item] = None
                    continue
                follower.is_checked = True
            checked.append(each)
        if not joining:
            del self._joining[item]
        return checked
