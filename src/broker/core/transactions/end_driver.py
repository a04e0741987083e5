"""Ends transactions in the logs that they have touched: before and after the decision.

    SyncData      no more batches of the producer; what was appended is synced   -> `synced`
    WriteMarkers  a marker into every partition, until all are on the disk       -> `marked`

A durable decision is always completed: markers that cannot be written are retried as long as the
coordinator says that they have to be written. After that none is written: the producer may be in
its next transaction. When another broker becomes the coordinator, nothing more is written here, and
what is reported later does not count: the new coordinator does all of it again.

Only logs of this broker are synced before the decision. A partition that another broker leads
needs nothing there: with polylog.durability=group-commit its batches were acknowledged after they
were synced, and a producer ends its transaction after all acknowledgements. With `os` a batch is
acknowledged before that. If the machine of such a leader loses power after the decision and before
the leader has synced the marker (and with it everything before the marker), the committed
transaction has lost records: `os` promises no more for a single record either. The producer is not
dismissed there either: a batch that arrives before the marker belongs to the transaction that ends,
as in Kafka, and after the marker it is refused.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.codec.control_records import Marker
from broker.core.transactions.commands import Producer, SyncData, WriteMarkers
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.step_queue import StepQueue
from broker.model.errors import ErrorCode, PolylogError

if TYPE_CHECKING:
    from broker.core.transactions.other_brokers import OwedMarker


class Coordinator(Protocol):
    """The part of the transaction coordinator that the end driver calls."""

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        """Report that a transaction's data is on the disk, or cannot be."""

    def marked(self, producer: Producer) -> None:
        """Report that a transaction's markers are on the disk."""

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        """Whether this attempt to end a transaction still waits for its data."""

    def decided_in(self, producer: Producer) -> object:
        """Return `load_of` its id if a producer's markers have to be written; None: they do not."""

    def wake(self) -> None:
        """Ask for a tick in a later turn."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Return the epoch of its markers."""

    def load_of(self, transactional_id: str) -> object:
        """Return an object that stands for the last load of its shard; None: it serves no more."""


class EndDriver:
    """All transactions that are ending."""

    def __init__(self, coordinator: Coordinator, markers: Markers, steps: StepQueue) -> None:
        """Start with none."""
        self.coordinator = coordinator
        self.markers = markers
        self._steps = steps
        # By transactional id. A second request for one comes after its shard was loaded again.
        self.syncing: dict[str, _Syncing] = {}
        self.writing: dict[str, _Writing] = {}
        self.failing: dict[str, _Writing] = {}  # those of them with markers to retry

    def sync(self, request: SyncData) -> None:
        """Dismiss the producer in every log and sync the logs: some now, others in later turns."""
        transactional_id = request.producer.transactional_id
        earlier = self.syncing.get(transactional_id)
        if earlier is not None:
            earlier.is_done = True
        syncing = _Syncing(self, request)
        self.syncing[transactional_id] = syncing
        self._steps.begin(syncing.ask())

    def write(self, request: WriteMarkers) -> None:
        """Write the markers: some now, the others in later turns."""
        transactional_id = request.producer.transactional_id
        earlier = self.writing.get(transactional_id)
        if earlier is not None:
            earlier.end()
        writing = _Writing(self, request)
        self.writing[transactional_id] = writing
        self._steps.begin(writing.write())

    def retry(self) -> None:
        """Retry failed markers in the next turns."""
        failing = list(self.failing.values())
        self.failing.clear()
        for writing in failing:
            self._steps.queue(writing.write_again())

    @property
    def wants_retry(self) -> bool:
        """Whether there are failed markers."""
        return bool(self.failing)


class _Syncing:
    """The sync of one transaction's data."""

    def __init__(self, driver: EndDriver, request: SyncData) -> None:
        self._driver = driver
        self._request = request
        self._load = driver.coordinator.load_of(request.producer.transactional_id)
        self._left = 1  # `ask`
        self._is_durable = True
        self.is_done = False

    def ask(self) -> Iterator[None]:
        """Dismiss the producer and request a sync in each partition."""
        producer, partitions, attempt = self._request
        for topic_partition in partitions:
            if self.is_done:
                return
            if not self._driver.coordinator.awaits_sync(producer, attempt):
                self._end()  # its shard was loaded again, and the transaction is still open
                return
            self._left += 1
            try:
                self._ask(topic_partition)
            except PolylogError:
                self._report(is_durable=False)
            yield
        self._report(is_durable=True)

    def _ask(self, topic_partition: TopicPartition) -> None:
        log = self._driver.markers.find_log(topic_partition)
        if log is None:  # another broker leads it, or its topic was deleted, and the data with it
            self._report(is_durable=True)
        elif log.is_loading:
            self._report(is_durable=False)
        else:
            log.dismiss_transaction(self._request.producer.producer_id)
            log.when_synced(log.log_end_offset, self._synced)

    def _synced(self, is_durable: bool) -> None:
        self._report(is_durable=is_durable)

    def _report(self, *, is_durable: bool) -> None:
        self._is_durable = self._is_durable and is_durable
        self._left -= 1
        if not self._left and not self.is_done:
            producer, _, attempt = self._request
            self._end()
            # Attempts are counted from 1 again after a load.
            if self._driver.coordinator.load_of(producer.transactional_id) is self._load:
                self._driver.coordinator.synced(producer, attempt, is_durable=self._is_durable)

    def _end(self) -> None:
        self.is_done = True
        del self._driver.syncing[self._request.producer.transactional_id]


class _Writing:
    """The markers of one transaction."""

    def __init__(self, driver: EndDriver, request: WriteMarkers) -> None:
        self._driver = driver
        self._producer = request.producer
        transactional_id, producer_id, epoch = request.producer
        self._load = driver.coordinator.load_of(transactional_id)
        self._version = request.version
        self._marker = Marker(
            producer_id,
            epoch,
            request.is_committed,
            driver.coordinator.coordinator_epoch(transactional_id),
        )
        self._batch = driver.markers.batch(self._marker)
        self._to_write = deque(sorted(request.partitions))
        self._failed: list[TopicPartition] = []
        self._syncing = 0
        self._is_done = False

    def write(self) -> Iterator[None]:
        """Write the markers that are left."""
        while self._to_write and not self._is_done:
            if not self._is_owed():
                self.end()  # it has ended, or its shard was loaded again and will ask again
                return
            place = self._to_write.popleft()
            self._syncing += 1
            answer = partial(self._written, place)
            markers = self._driver.markers
            if markers.is_led_elsewhere(place):
                markers.send(self._owed(place, answer))
            else:
                markers.write_here(place, self._marker, self._batch, answer)
            yield
        self._end_if_written()

    def write_again(self) -> Iterator[None]:
        """Write the failed markers, and those that are left."""
        self._to_write.extend(self._failed)
        self._failed.clear()
        return self.write()

    def end(self) -> None:
        """Write no more markers."""
        transactional_id = self._producer.transactional_id
        self._is_done = True
        self._driver.failing.pop(transactional_id, None)
        del self._driver.writing[transactional_id]

    def _owed(self, place: TopicPartition, answer: Callable[[ErrorCode], None]) -> "OwedMarker":
        from broker.core.transactions.other_brokers import OwedMarker  # noqa: PLC0415 (a cluster's)

        return OwedMarker(place, self._marker, self._version, self._is_owed, answer)

    def _is_owed(self) -> bool:
        """Return whether this writing still has to go on."""
        return (
            not self._is_done and self._driver.coordinator.decided_in(self._producer) is self._load
        )

    def _written(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        self._syncing -= 1
        if self._is_done:
            return
        # A topic that was deleted needs no marker.
        if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._failed.append(topic_partition)
            self._driver.failing[self._producer.transactional_id] = self
            self._driver.coordinator.wake()
        self._end_if_written()

    def _end_if_written(self) -> None:
        if not (self._is_done or self._to_write or self._failed or self._syncing):
            if self._is_owed():
                self._driver.coordinator.marked(self._producer)
            if self._is_done:
                return
            if self._is_owed():  # its log has no space or too few replicas: reported again later
                self._driver.failing[self._producer.transactional_id] = self
                self._driver.coordinator.wake()
            else:
                self.end()
