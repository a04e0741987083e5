"""What a broker gives up because its log of a partition has failed: leadership and membership.

    the broker's log is offline, and it is    and                          it writes
    the leader                                another member can lead,     that one as the leader,
                                              of the ISR, else of the ELR  itself out of both
    a member of the ISR or ELR                another one counts           itself out of both
    any of these                              no other one counts          nothing: it may be the
                                                                           last copy, and looks
                                                                           again

Nobody else learns of it: the broker is alive, so the controller leaves it what it leads, and its
log answers nobody, so no follower lags. A log that is offline stays so until a restart; then it
follows, and comes back when it has caught up. Meanwhile it may lack what it had, so it is not
eligible either.

A log that is offline because its epochs are above those of the store gives up nothing: a restored
store has to be repaired first, and every election in it may repeat an epoch that was used.
"""

from collections.abc import Callable, Iterable

from broker.core.cluster import election, eligibility
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.machine import BrokerMachine
from broker.core.cluster.topic_settings import TopicSettings
from broker.core.cluster.writes import Change, Item


class FailedLogs(BrokerMachine):
    """The failed logs of one incarnation of a broker."""

    __slots__ = ("_failed", "_is_failed", "_settings")

    def __init__(
        self,
        image: ClusterImage,
        broker: tuple[int, int],
        failed: Iterable[Item],
        is_failed: Callable[[bytes, int, int], bool],
        settings: TopicSettings,
    ) -> None:
        """Begin.

        Args:
            image: of this broker.
            broker: its id and epoch.
            failed: the partitions whose logs have failed before.
            is_failed: returns whether the log of a partition is offline, and its records are not of
                a later leader epoch than this one.
            settings: of topics.
        """
        super().__init__(image, broker)
        self._is_failed = is_failed
        self._settings = settings
        self._failed: set[Item] = set()
        for item in failed:
            self.failed(item)

    def failed(self, item: Item) -> None:
        """Report that a log is offline."""
        self._failed.add(item)
        self._writes.mark(item)

    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed: another member may lead now, or this broker was elected."""
        self._writes.image_changed()
        if self._failed:
            changed = self._failed if delta.brokers else self._failed.intersection(delta.partitions)
            self._scan.add_partitions(list(changed))

    def _look(self, item: Item) -> None:
        self._writes.mark(item)

    def _decide(self, item: Item) -> Change | None:
        found = eligibility.known(self._image, *item)
        if found is None:
            self._failed.discard(item)
            return None
        if not self._is_failed(*item, found.state.leader_epoch):
            return None
        changed = election.give_up(found, self._broker_id, self._settings.topic(item[0]))
        if changed is None:
            return None
        return eligibility.change(self._image, item, found, changed)
