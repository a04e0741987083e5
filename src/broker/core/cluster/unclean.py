"""What is logged of an election that may lose acknowledged records.

How many is known once the members of the old ISR are back: each logs what it truncates.

An election of the controller is logged once the store has applied it, not when it is decided: its
write is refused if the replica has failed meanwhile. When the outcome of a write is not known, the
image tells it by the time at which the partition is decided again.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import PartitionState
from broker.core.cluster.writes import Item

_log = logging.getLogger(__name__)


class _Election(NamedTuple):
    """An election that is being written."""

    old: PartitionState
    new: PartitionState
    known: object  # of the ends of the replicas

    def has_made(self, state: PartitionState) -> bool:
        """Return whether a state has come from this election."""
        elected, present = (
            (each.leader_epoch, each.leader, each.broker_epoch) for each in (self.new, state)
        )
        return elected == present


class UncleanElections:
    """The unclean elections of a controller that are being written."""

    __slots__ = ("_image", "_writing")

    def __init__(self, image: ClusterImage) -> None:
        """Begin without any."""
        self._image = image
        self._writing: dict[Item, _Election] = {}

    def decided(self, item: Item, old: PartitionState, new: PartitionState, known: object) -> None:
        """Note an election that is written next; `known` is what is known of the replicas."""
        self._writing[item] = _Election(old, new, known)

    def applied(self, items: Iterable[Item]) -> None:
        """Log the elections among changes that the store has applied."""
        for item in self._writing.keys() & items:
            self._warn(item, self._writing.pop(item))

    def decided_again(self, item: Item, state: PartitionState | None) -> None:
        """Log an election of which only the image tells that it was applied, and forget others."""
        election = self._writing.pop(item, None)
        if election is not None and state is not None and election.has_made(state):
            self._warn(item, election)

    def _warn(self, item: Item, election: _Election) -> None:
        warn(self._image, item, *election)


def warn(
    image: ClusterImage,
    item: Item,
    old: PartitionState,
    new: PartitionState,
    known: object,
) -> None:
    """Log an unclean election, and what is known of the ends of the replicas."""
    topic = image.topics.get(item[0])
    _log.warning(
        "unclean election, acknowledged records may be lost: topic=%s partition=%d leader=%d"
        " leader_epoch=%d isr_before=%s elr_before=%s last_known=%s replicas=%s",
        *("(deleted)" if topic is None else topic.name, item[1], new.leader, new.leader_epoch),
        *(old.isr, old.elr, old.last_known, known),
    )
