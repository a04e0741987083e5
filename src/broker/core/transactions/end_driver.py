"""The end of a transaction in the logs that it touched, on both sides of its decision.

    SyncData      no more of its batches, what there is goes to the disk       -> `synced`
    WriteMarkers  a marker into every partition, until all are on the disk     -> `marked`

A decision that is durable comes true: markers that cannot be written now are tried again, as long
as the coordinator says that they are to be written. Whoever comes too late writes none: the
producer may be in its next transaction.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from broker.codec.control_records import Marker
from broker.core.transactions.commands import Producer, SyncData, WriteMarkers
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import Place
from broker.core.transactions.step_queue import StepQueue
from broker.model.errors import ErrorCode, PolylogError


class Coordinator(Protocol):
    """Who is told how it went."""

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        """A transaction's data is on the disk, or cannot be."""

    def marked(self, producer: Producer) -> None:
        """A transaction's markers are on the disk."""

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        """Whether a transaction's end still waits for its data: this attempt to end it."""

    def is_decided(self, producer: Producer) -> bool:
        """Whether the markers of this producer's transaction are to be written."""

    def wake(self) -> None:
        """There is something to do in a later turn."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The epoch that its markers carry."""


class EndDriver:
    """All transactions that end now."""

    def __init__(self, coordinator: Coordinator, markers: Markers, steps: StepQueue) -> None:
        """Begin with none."""
        self._coordinator = coordinator
        self._markers = markers
        self._steps = steps
        # By transactional id; whoever is asked for one again has been loaded again.
        self._syncing: dict[str, _Syncing] = {}
        self._writing: dict[str, _Writing] = {}
        self._failing: dict[str, _Writing] = {}  # those of them with markers to be tried again

    def sync(self, request: SyncData) -> None:
        """Dismiss the producer everywhere and have everything synced: some now, others later."""
        transactional_id = request.producer.transactional_id
        earlier = self._syncing.get(transactional_id)
        if earlier is not None:
            earlier.is_done = True
        syncing = _Syncing(self._coordinator, self._markers, request, self._syncing)
        self._syncing[transactional_id] = syncing
        self._steps.begin(syncing.ask())

    def write(self, request: WriteMarkers) -> None:
        """Write the markers: some now, the others in the next turns."""
        transactional_id = request.producer.transactional_id
        earlier = self._writing.get(transactional_id)
        if earlier is not None:
            earlier.end()
        writing = _Writing(self._coordinator, self._markers, request, self._writing, self._failing)
        self._writing[transactional_id] = writing
        self._steps.begin(writing.write())

    def retry(self) -> None:
        """Try again, in the next turns, what could not be written."""
        failing = list(self._failing.values())
        self._failing.clear()
        for writing in failing:
            self._steps.queue(writing.write_again())

    @property
    def wants_retry(self) -> bool:
        """Whether there are markers that could not be written."""
        return bool(self._failing)


class _Syncing:
    """The data of one transaction on its way to the disk."""

    def __init__(
        self,
        coordinator: Coordinator,
        markers: Markers,
        request: SyncData,
        all_syncing: "dict[str, _Syncing]",
    ) -> None:
        self._coordinator = coordinator
        self._markers = markers
        self._request = request
        self._all = all_syncing
        self._left = 1  # `ask`
        self._is_durable = True
        self.is_done = False

    def ask(self) -> Iterator[None]:
        """Have the data of each partition synced, and none come after it."""
        producer, partitions, attempt = self._request
        for place in partitions:
            if self.is_done:
                return
            if not self._coordinator.awaits_sync(producer, attempt):
                self._end()  # Its coordinator was loaded again: the transaction goes on.
                return
            self._left += 1
            try:
                self._ask(place)
            except PolylogError:
                self._one_is(is_durable=False)
            yield
        self._one_is(is_durable=True)

    def _ask(self, place: Place) -> None:
        log = self._markers.find_log(place)
        if log is None:  # Its topic was deleted, and the data with it.
            self._one_is(is_durable=True)
        elif log.is_loading:
            self._one_is(is_durable=False)
        else:
            log.dismiss_transaction(self._request.producer.producer_id)
            log.when_synced(log.log_end_offset, self._synced)

    def _synced(self, is_durable: bool) -> None:
        self._one_is(is_durable=is_durable)

    def _one_is(self, *, is_durable: bool) -> None:
        self._is_durable = self._is_durable and is_durable
        self._left -= 1
        if not self._left and not self.is_done:
            producer, _, attempt = self._request
            self._end()
            self._coordinator.synced(producer, attempt, is_durable=self._is_durable)

    def _end(self) -> None:
        self.is_done = True
        del self._all[self._request.producer.transactional_id]


class _Writing:
    """The markers of one transaction."""

    def __init__(
        self,
        coordinator: Coordinator,
        markers: Markers,
        request: WriteMarkers,
        all_writing: "dict[str, _Writing]",
        failing: "dict[str, _Writing]",
    ) -> None:
        self._coordinator = coordinator
        self._markers = markers
        self._producer = request.producer
        self._all = all_writing
        self._failing = failing
        transactional_id, producer_id, epoch = request.producer
        self._marker = Marker(
            producer_id,
            epoch,
            request.is_committed,
            coordinator.coordinator_epoch(transactional_id),
        )
        self._batch = markers.batch(self._marker)
        self._to_write = deque(sorted(request.partitions))
        self._failed: list[Place] = []
        self._syncing = 0
        self._is_done = False

    def write(self) -> Iterator[None]:
        """Write what is to be written."""
        while self._to_write and not self._is_done:
            if not self._coordinator.is_decided(self._producer):
                self.end()  # Another coordinator of it has finished, or is to begin again.
                return
            place = self._to_write.popleft()
            self._syncing += 1
            try:
                self._markers.write(place, self._marker, self._batch, partial(self._written, place))
            except PolylogError:  # Never lost with the one that fails: the decision comes true.
                self._written(place, ErrorCode.KAFKA_STORAGE_ERROR)
            yield
        self._end_if_written()

    def write_again(self) -> Iterator[None]:
        """Write what could not be written, and what is left."""
        self._to_write.extend(self._failed)
        self._failed.clear()
        return self.write()

    def end(self) -> None:
        """Write nothing any more."""
        transactional_id = self._producer.transactional_id
        self._is_done = True
        self._failing.pop(transactional_id, None)
        del self._all[transactional_id]

    def _written(self, place: Place, error: ErrorCode) -> None:
        self._syncing -= 1
        if self._is_done:
            return
        # A topic that was deleted needs no marker.
        if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._failed.append(place)
            self._failing[self._producer.transactional_id] = self
            self._coordinator.wake()
        self._end_if_written()

    def _end_if_written(self) -> None:
        if not (self._is_done or self._to_write or self._failed or self._syncing):
            self.end()
            self._coordinator.marked(self._producer)
