"""A partition's log over a disk that is slow, fails, and loses unsynced writes.

It stands for the native log: its admissions, open transactions, visibility and durability. A
client's batch is one `Entry` with a value; a coordinator's is kept as bytes.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from broker.codec import scan_headers
from broker.codec.control_records import decode_marker, is_control, is_transactional
from broker.model.errors import ErrorCode, StorageError
from tests.simulation.virtual_time import VirtualTime

NO_ID = -1


class Entry(NamedTuple):
    """A stored batch."""

    base_offset: int
    record_count: int
    data: bytes = b""  # of a coordinator
    producer_id: int = NO_ID
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    commits: bool | None = None  # the content of a marker; None: it is not one
    value: str = ""  # of a client

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.record_count


class Producer(NamedTuple):
    """The state of a producer in a log."""

    epoch: int
    sequence: int
    open_since: int = -1


class Disk:
    """How the disk behaves; the simulation turns faults on and off."""

    def __init__(self, rng: Random, time: VirtualTime) -> None:
        self.rng = rng
        self.time = time
        self.fail_rate = 0.0
        self.break_rate = 0.0
        self.last_fault_ms = 0

    def fails(self) -> bool:
        """Return whether this append fails."""
        return self._happens(self.fail_rate)

    def breaks(self) -> bool:
        """Return whether this sync fails, and takes the log offline."""
        return self._happens(self.break_rate)

    def sync_ms(self) -> int:
        """Return how long this sync takes."""
        is_late = self.rng.random() < 0.05
        return self.rng.randrange(200, 1_500) if is_late else self.rng.randrange(25)

    def _happens(self, rate: float) -> bool:
        happens = rate > 0 and self.rng.random() < rate
        if happens:
            self.last_fault_ms = self.time.now_ms
        return happens


class SimulatedLog:
    """An implementation of the interface in `broker.core.logs.log`."""

    log_start_offset = 0
    is_loading = False
    is_led = True
    is_replicated = False
    lacks_replicas = False

    def __init__(self, topic: str, partition: int, disk: Disk, *, is_os: bool = False) -> None:
        self.place = (topic, partition)
        self.is_os = is_os  # visible at once, durable some time later
        self.entries: list[Entry] = []
        self.leader_epoch = 0
        self.is_offline = False
        self.damaged_ranges: list[tuple[int, int]] = []
        self.synced_end = 0
        self.producers: dict[int, Producer] = {}
        self.on_append: Callable[[SimulatedLog, Entry], None] = lambda _log, _entry: None
        self._disk = disk
        self._admitted: dict[int, int] = {}
        self._waiting: list[tuple[int, Callable[[bool], None]]] = []
        self._run = 0  # callbacks of an earlier run have no effect
        self._is_syncing = False

    # ---- state ----------------------------------------------------------------------------------

    @property
    def log_end_offset(self) -> int:
        return self.entries[-1].end_offset if self.entries else 0

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset if self.is_os else self.synced_end

    @property
    def last_stable_offset(self) -> int:
        return min([self.high_watermark, *self.open_transactions.values()])

    @property
    def open_transactions(self) -> dict[int, int]:
        known = self.producers.items()
        return {each: found.open_since for each, found in known if found.open_since >= 0}

    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]:
        return [
            (each, known.epoch, known.sequence, 0, 0, known.open_since)
            for each, known in self.producers.items()
        ]

    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None:
        return next((each for each in self.active_producers if each[0] == producer_id), None)

    def read(self, offset: int, size_max: int) -> bytes:
        """Return whole batches up to the high watermark, at least one."""
        found: list[bytes] = []
        size = 0
        for entry in self.entries:
            if entry.end_offset <= offset or entry.base_offset >= self.high_watermark:
                continue
            size += len(entry.data)
            if found and size > size_max:
                break
            found.append(entry.data)
        return b"".join(found)

    # ---- transactions ----------------------------------------------------------------------------

    def admits_transaction(self, producer_id: int, epoch: int) -> bool:
        return self._admitted.get(producer_id) == epoch

    def admit_transaction(self, producer_id: int, epoch: int) -> None:
        self._admitted[producer_id] = epoch

    def dismiss_transaction(self, producer_id: int) -> None:
        self._admitted.pop(producer_id, None)

    # ---- appending -------------------------------------------------------------------------------

    def append_internal(self, batch: bytes) -> int:
        """Append a coordinator's batch."""
        self._check_disk()
        base_offset = self.log_end_offset
        header = scan_headers(batch)[0]
        marker = decode_marker(batch) if is_control(header) else None
        placed = base_offset.to_bytes(8, "big") + batch[8:]
        self._append(
            Entry(
                base_offset,
                header.record_count,
                placed,
                header.producer_id,
                header.producer_epoch,
                is_transactional=is_transactional(header),
                commits=None if marker is None else marker.is_committed,
            )
        )
        return base_offset

    def produce(
        self, producer_id: int, epoch: int, sequence: int, value: str
    ) -> tuple[ErrorCode, int]:
        """Append a producer's batch of one record; return the next offset."""
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, 0
        is_same_epoch = known is not None and epoch == known.epoch
        if known is not None and is_same_epoch and sequence <= known.sequence:
            return ErrorCode.NONE, self.log_end_offset
        if not self.admits_transaction(producer_id, epoch):
            return ErrorCode.INVALID_TXN_STATE, 0
        if known is not None and sequence != (known.sequence + 1 if is_same_epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0
        try:
            self._check_disk()
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR, 0
        self._append(
            Entry(
                self.log_end_offset,
                1,
                producer_id=producer_id,
                epoch=epoch,
                sequence=sequence,
                is_transactional=True,
                value=value,
            )
        )
        return ErrorCode.NONE, self.log_end_offset

    def _check_disk(self) -> None:
        if self.is_offline or self._disk.fails():
            raise StorageError("the simulated disk fails")

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._learn(entry)
        self.on_append(self, entry)
        self._sync_soon()

    def _learn(self, entry: Entry) -> None:
        """Update the producer's state by a batch."""
        if entry.producer_id == NO_ID:
            return
        known = self.producers.get(entry.producer_id, Producer(-1, -1))
        if entry.commits is not None:
            self._admitted.pop(entry.producer_id, None)
            # A newer epoch begins at sequence 0.
            sequence = known.sequence if known.epoch >= entry.epoch else -1
            self.producers[entry.producer_id] = Producer(max(known.epoch, entry.epoch), sequence)
        elif entry.is_transactional:
            open_since = known.open_since if known.open_since >= 0 else entry.base_offset
            self.producers[entry.producer_id] = Producer(entry.epoch, entry.sequence, open_since)

    # ---- the disk --------------------------------------------------------------------------------

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        if offset <= self.high_watermark and not self.is_offline:
            callback(True)
        else:
            self.when_synced(offset, callback)

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        if self.is_offline or offset <= self.synced_end:
            callback(not self.is_offline)
        else:
            self._waiting.append((offset, callback))

    def _sync_soon(self) -> None:
        if self._is_syncing or self.is_offline:
            return
        self._is_syncing = True
        end_offset, run = self.log_end_offset, self._run

        def finish() -> None:
            if run == self._run:
                self._synced(end_offset)

        self._disk.time.after(self._disk.sync_ms(), finish)

    def _synced(self, end_offset: int) -> None:
        self._is_syncing = False
        if self._disk.breaks():
            self.is_offline = True
        else:
            self.synced_end = end_offset
        waiting, self._waiting = self._waiting, []
        for offset, callback in waiting:
            if not self.is_offline and offset > self.synced_end:
                self._waiting.append((offset, callback))
            else:
                callback(not self.is_offline)
        if self.log_end_offset > self.synced_end:
            self._sync_soon()

    def crash(self, *, is_power_cut: bool) -> list[Entry]:
        """Lose all waiters, and in a power cut some of what was not synced."""
        unsynced = [each for each in self.entries if each.end_offset > self.synced_end]
        kept = self._disk.rng.randint(0, len(unsynced)) if is_power_cut else len(unsynced)
        lost = unsynced[kept:]
        self.entries = self.entries[: len(self.entries) - len(lost)]
        self._run += 1
        self._waiting, self._is_syncing, self._admitted = [], False, {}
        self.is_offline = False
        self.leader_epoch += 1
        self.synced_end = self.log_end_offset  # Recovery syncs what it finds.
        self.producers = {}
        for entry in self.entries:
            self._learn(entry)
        return lost
