"""What the state machines that write metadata have in common.

    controller                 one term of its office            Machine
    hand-overs, ISRs, what     one incarnation of a broker       BrokerMachine
    failed logs give up

The driver (`server/cluster/writing.py`) lets a machine work, executes its transactions, and reports
their outcomes. Each transaction has a guard, the fence, that the machine is still the present one.
"""

from abc import ABC, abstractmethod

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.cluster.records import PartitionState
from broker.core.cluster.scan import Scan
from broker.core.cluster.writes import Change, GuardedWrites, Item, Write
from broker.storage.metadata import CreatedAt, Guard


class Machine(ABC):
    """A state machine that changes keys of the store."""

    __slots__ = ("_image", "_scan", "_writes")

    def __init__(self, image: ClusterImage, fence: Guard) -> None:
        """Begin with nothing to do; `image` is this broker's."""
        self._image = image
        self._scan = Scan(image)  # what is left to look at
        self._writes = GuardedWrites(image, fence, self._decide)

    @property
    @abstractmethod
    def has_work(self) -> bool:
        """Whether `work` has something to do now."""

    @abstractmethod
    def work(self) -> Write | None:
        """Work for one slice of at most 2 ms; return a transaction if one is complete.

        Its outcome is reported with `applied`, `refused` or `unknown`.
        """

    def applied(self, write: Write, revision: int) -> None:
        """Report that the store has applied a transaction."""
        self._writes.applied(write, revision)

    def refused(self, write: Write, now_ms: int) -> None:
        """Report that a guard of a transaction did not hold."""
        self._writes.refused(write, now_ms)

    def unknown(self, write: Write, now_ms: int) -> None:
        """Report that the outcome of a transaction is not known."""
        self._writes.unknown(write, now_ms)

    @abstractmethod
    def _decide(self, item: Item) -> Change | None:
        """Return the change of an item's key and its guards, from the present image, or None."""


class BrokerMachine(Machine):
    """A state machine of one incarnation of a broker."""

    __slots__ = ("_broker_epoch", "_broker_id")

    def __init__(self, image: ClusterImage, broker: tuple[int, int]) -> None:
        """Begin with nothing to do; `broker` is its id and epoch."""
        self._broker_id, self._broker_epoch = broker
        super().__init__(image, CreatedAt(records.broker_key(self._broker_id), self._broker_epoch))

    @abstractmethod
    def image_changed(self, delta: Delta) -> None:
        """Look at what has changed."""

    def tick(self, now_ms: int) -> None:
        """Decide again what has waited long enough; call at `due_ms`."""
        self._writes.tick(now_ms)

    @property
    def due_ms(self) -> int | None:
        """When to call `tick` next; None: not before another call."""
        return self._writes.due_ms

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do now."""
        return self._scan.has_work or self._writes.has_marked

    def work(self) -> Write | None:
        """Work for one slice, as any machine."""
        if not self._scan.has_work:
            return self._writes.take()
        for item in self._scan.next():
            self._look(item)
        return None

    def _led(self, item: Item) -> PartitionState | None:
        """Return a partition's state if this incarnation leads it."""
        state = self._image.state(*item)
        if state is None or state.leader != self._broker_id:
            return None
        return state if state.broker_epoch == self._broker_epoch else None

    @abstractmethod
    def _look(self, item: Item) -> None:
        """Mark a partition whose state, or whose brokers', has changed, if it is to be decided."""
