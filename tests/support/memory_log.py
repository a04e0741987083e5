"""A partition's log in memory, for tests of what is built on one: durable when a test says so."""

from collections.abc import Callable
from typing import Any

from broker.codec.control_records import Marker, decode_marker
from broker.model.errors import StorageError, TooFewReplicas
from tests.support.batches import batch_of, header


class MemoryLog:
    """An implementation of broker.core.logs.log.InternalLog in memory."""

    def __init__(self, *, syncs: bool = True) -> None:
        """Begin empty; without `syncs` nothing is durable until `sync` is called."""
        self.syncs = syncs
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.is_offline = False
        self.is_led = True
        self.is_replicated = False
        self.lacks_replicas = False
        self.batches: list[tuple[int, bytes]] = []
        self.damaged_ranges: list[tuple[int, int]] = []
        self._callbacks: list[tuple[int, Callable[[bool], None]]] = []

    def append_internal(self, batch: bytes) -> int:
        """Give the batch the next offsets and keep it."""
        if self.is_offline:
            raise StorageError("memory log is offline")
        if self.lacks_replicas:
            raise TooFewReplicas("too few replicas of the memory log are in sync")
        base_offset = self.log_end_offset
        placed = base_offset.to_bytes(8, "big") + batch[8:]
        self.batches.append((base_offset, placed))
        self.log_end_offset += header(placed).record_count
        if self.syncs:
            self.sync()
        return base_offset

    def read(self, offset: int, size_max: int) -> bytes:
        """Return whole batches from an offset up to the high watermark or damage, at least one."""
        found = b""
        sound_end = min((start for start, end in self.damaged_ranges if end > offset), default=None)
        if sound_end is not None and sound_end <= offset:
            raise StorageError(f"memory log is damaged at offset {offset}")
        for base_offset, batch in self.batches:
            end = header(batch).last_offset
            if end < offset or base_offset >= self.high_watermark:
                continue
            if sound_end is not None and base_offset >= sound_end:
                break
            if found and len(found) + len(batch) > size_max:
                break
            found += batch
        return found

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back at once, or when `sync` or `fail` decides."""
        if self.is_offline or offset <= self.high_watermark:
            callback(not self.is_offline)
        else:
            self._callbacks.append((offset, callback))

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        """As `when_durable`: what is visible here is on the disk."""
        self.when_durable(offset, callback)

    def lose_replicas(self) -> None:
        """Let too few replicas be in sync."""
        self.lacks_replicas = True
        self._call_back(is_durable=False)

    def when_kept(self, offset: int, callback: Callable[[bool], None]) -> None:
        """As `when_durable`: there are no other replicas."""
        self.when_durable(offset, callback)

    def sync(self, end_offset: int | None = None) -> None:
        """Make everything appended so far durable, or what is below an offset."""
        self.high_watermark = self.log_end_offset if end_offset is None else end_offset
        self._call_back(is_durable=True)

    def fail(self) -> None:
        """Let the disk fail: what is not durable is lost."""
        self.is_offline = True
        self._call_back(is_durable=False)

    def crash(self) -> None:
        """Lose what is not durable, and all waiters."""
        self.batches = [each for each in self.batches if each[0] < self.high_watermark]
        self.log_end_offset = self.high_watermark
        self._callbacks = []

    def _call_back(self, *, is_durable: bool) -> None:
        waiting, self._callbacks = self._callbacks, []
        for offset, callback in waiting:
            if is_durable and offset > self.high_watermark:
                self._callbacks.append((offset, callback))
            else:
                callback(is_durable)


class ClientLog(MemoryLog):
    """A log with client transactions: admissions, open transactions, markers."""

    def __init__(self, *, syncs: bool = True) -> None:
        """Begin empty, in service, without admissions."""
        super().__init__(syncs=syncs)
        self.is_loading = False
        self.admitted: dict[int, int] = {}
        self.open_transactions: dict[int, int] = {}
        self.markers: list[Marker] = []
        self.epochs: dict[int, int] = {}  # of the producers
        self.coordinator_epochs: dict[int, int] = {}  # of their last markers

    def admit_transaction(self, producer_id: int, epoch: int) -> None:
        """Admit its batches."""
        self.admitted[producer_id] = epoch

    def dismiss_transaction(self, producer_id: int) -> None:
        """End the admission."""
        self.admitted.pop(producer_id, None)

    def admits_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether its batches are admitted."""
        return self.admitted.get(producer_id) == epoch

    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]:
        """Return the states of producers, as far as tests need them."""
        return [
            (
                *(producer, epoch, -1, -1),
                self.coordinator_epochs.get(producer, -1),
                self.open_transactions.get(producer, -1),
            )
            for producer, epoch in self.epochs.items()
        ]

    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None:
        """Return the state of one producer."""
        return next((each for each in self.active_producers if each[0] == producer_id), None)

    def send(self, producer_id: int, epoch: int) -> bool:
        """Append a producer's transactional batch; False if it is not admitted."""
        if not self.admits_transaction(producer_id, epoch):
            return False
        options: dict[str, Any] = {"is_transactional": True, "base_sequence": 0}
        offset = super().append_internal(
            batch_of(
                [(b"k", b"v", [])], 0, producer_id=producer_id, producer_epoch=epoch, **options
            )
        )
        self.open_transactions.setdefault(producer_id, offset)
        self.epochs[producer_id] = epoch
        return True

    def append_internal(self, batch: bytes) -> int:
        """Append a marker, which ends the producer's open transaction."""
        offset = super().append_internal(batch)
        marker = decode_marker(batch)
        assert marker is not None
        self.markers.append(marker)
        self.epochs[marker.producer_id] = marker.producer_epoch
        self.coordinator_epochs[marker.producer_id] = marker.coordinator_epoch
        self.open_transactions.pop(marker.producer_id, None)
        self.admitted.pop(marker.producer_id, None)
        return offset
