"""The end of a transaction in the logs that it touched, on both sides of its decision.

    SyncData      no more of its batches, what there is goes to the disk       -> `synced`
    WriteMarkers  a marker into every partition, until all are on the disk     -> `marked`

A decision that is durable comes true: markers that cannot be written now are tried again, as long
as the coordinator says that they are to be written. Whoever comes too late writes none: the
producer may be in its next transaction.
"""

from functools import partial
from typing import Protocol

from broker.codec.control_records import Marker
from broker.core.transactions.commands import Producer, SyncData, WriteMarkers
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import Place
from broker.model import limits
from broker.model.errors import ErrorCode


class Coordinator(Protocol):
    """Who is told how it went."""

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        """A transaction's data is on the disk, or cannot be."""

    def marked(self, producer: Producer) -> None:
        """A transaction's markers are on the disk."""

    def is_decided(self, producer: Producer) -> bool:
        """Whether the markers of this producer's transaction are to be written."""

    def wake(self) -> None:
        """There is something to do in a later turn."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The epoch that its markers carry."""


class Endings:
    """All transactions that end now."""

    def __init__(self, coordinator: Coordinator, markers: Markers) -> None:
        """Begin with none."""
        self._coordinator = coordinator
        self._markers = markers
        self._writing: dict[str, _Writing] = {}

    def sync(self, request: SyncData) -> None:
        """Dismiss the producer everywhere, then have everything synced."""
        _Syncing(self._coordinator, request, self._markers)

    def write(self, request: WriteMarkers) -> None:
        """Write the markers: some now, the others in the next turns."""
        transactional_id = request.producer.transactional_id
        earlier = self._writing.get(transactional_id)
        if earlier is not None:
            earlier.is_done = True  # Its coordinator was loaded again.
        writing = _Writing(self._coordinator, self._markers, request)
        self._writing[transactional_id] = writing
        writing.write_some(limits.MARKERS_PER_TURN)
        self._forget_done()

    def tick(self, *, is_retry: bool) -> None:
        """Write on; what could not be written is tried again when it is time."""
        room = limits.MARKERS_PER_TURN
        for writing in list(self._writing.values()):
            if is_retry:
                writing.retry()
            room -= writing.write_some(room)
        self._forget_done()

    @property
    def wants_turn(self) -> bool:
        """Whether there are markers that can be written now."""
        return any(each.to_write for each in self._writing.values())

    @property
    def wants_retry(self) -> bool:
        """Whether there are markers that could not be written."""
        return any(each.failed for each in self._writing.values())

    def _forget_done(self) -> None:
        for transactional_id in [key for key, each in self._writing.items() if each.is_done]:
            del self._writing[transactional_id]


class _Syncing:
    """The data of one transaction on its way to the disk."""

    def __init__(self, coordinator: Coordinator, request: SyncData, markers: Markers) -> None:
        self._coordinator = coordinator
        self._request = request
        self._left = 1  # this method
        self._is_durable = True
        for place in request.partitions:
            log = markers.find_log(place)
            if log is None:
                continue  # Its topic was deleted, and the data with it.
            self._left += 1
            if log.is_loading:
                self._one_is(is_durable=False)
            else:
                log.dismiss_transaction(request.producer.producer_id)
                log.when_synced(log.log_end_offset, self._told)
        self._one_is(is_durable=True)

    def _told(self, is_durable: bool) -> None:
        self._one_is(is_durable=is_durable)

    def _one_is(self, *, is_durable: bool) -> None:
        self._is_durable = self._is_durable and is_durable
        self._left -= 1
        if not self._left:
            producer, _, attempt = self._request
            self._coordinator.synced(producer, attempt, is_durable=self._is_durable)


class _Writing:
    """The markers of one transaction."""

    def __init__(self, coordinator: Coordinator, markers: Markers, request: WriteMarkers) -> None:
        self._coordinator = coordinator
        self._markers = markers
        self._producer = request.producer
        transactional_id, producer_id, epoch = request.producer
        self._marker = Marker(
            producer_id,
            epoch,
            request.is_committed,
            coordinator.coordinator_epoch(transactional_id),
        )
        self._batch = markers.batch(self._marker)
        self.to_write = sorted(request.partitions)
        self.failed: list[Place] = []
        self._syncing = 0
        self.is_done = False

    def write_some(self, room: int) -> int:
        """Write as many as there is room for; how many that were."""
        if not self._coordinator.is_decided(self._producer):
            self.is_done = True  # Another coordinator of it has finished, or is to begin again.
            return 0
        taken, self.to_write = self.to_write[:room], self.to_write[room:]
        self._syncing += len(taken)
        for place in taken:
            self._markers.write(place, self._marker, self._batch, partial(self._written, place))
        self._end_if_done()
        return len(taken)

    def retry(self) -> None:
        """Try again what has failed."""
        self.to_write, self.failed = self.to_write + self.failed, []

    def _written(self, place: Place, error: ErrorCode) -> None:
        self._syncing -= 1
        # A topic that was deleted needs no marker.
        if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self.failed.append(place)
            self._coordinator.wake()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not (self.is_done or self.to_write or self.failed or self._syncing):
            self.is_done = True
            self._coordinator.marked(self._producer)
