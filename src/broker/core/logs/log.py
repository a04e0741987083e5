"""What core needs of a partition's log; implemented by the native `PartitionLog`.

The logs of clients and those that hold a coordinator's state are read and waited for in the same
way, and appended to in different ones.
"""

from collections.abc import Callable
from typing import Protocol

from broker.model.log_results import AppendResult


class ReadableLog(Protocol):
    """The part of a log that every reader uses."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can still be read."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be assigned."""

    @property
    def high_watermark(self) -> int:
        """The offset below which records may be read, exclusive."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of appends from now on."""

    @property
    def is_offline(self) -> bool:
        """Whether the disk failed under this log; it stays offline until a restart."""

    @property
    def is_led(self) -> bool:
        """Whether this broker may accept and acknowledge writes to it at this moment.

        False once another broker leads the partition, or may lead it because the lease of this one
        has ended. What is in the log can be read all the same.
        """

    def read(self, offset: int, size_max: int) -> bytes:
        """Read whole batches from the one that holds `offset` on; at least one if visible."""

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back when the high watermark reaches `offset`: True; False if it cannot.

        The log has failed then, follows another broker's, or too few replicas are in sync.
        """


class SyncedLog(ReadableLog, Protocol):
    """A log of which a caller may need to know what is on the disk."""

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back when the disk has everything below `offset`, under any durability setting."""


class InternalLog(SyncedLog, Protocol):
    """A log that a coordinator writes."""

    @property
    def damaged_ranges(self) -> list[tuple[int, int]]:
        """The (offset, end offset) of records that `read` refuses, ascending."""

    @property
    def is_replicated(self) -> bool:
        """Whether other brokers have replicas of it: its high watermark depends on them."""

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer replicas are in sync than min.insync.replicas."""

    def append_internal(self, batch: bytes) -> int:
        """Append a batch of the broker; return its base offset. StorageError when that fails.

        TooManyProducers, without any effect, for one more producer than the log may remember.
        """


class TransactionalLog(SyncedLog, Protocol):
    """A log as transactions use it: it admits a producer's batches until its marker."""

    @property
    def is_loading(self) -> bool:
        """Whether its files are still being recovered: it answers nothing else until then."""

    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]:
        """The state of each producer, -1 for what is unknown.

        Id, epoch, last sequence, last timestamp, coordinator epoch, start of the open transaction.
        """

    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None:
        """Return the same of one producer; None when it is unknown."""

    @property
    def open_transactions(self) -> dict[int, int]:
        """The first offset of each producer's open transaction, by producer id."""

    def admits_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer's transactional batches of an epoch are accepted."""

    def admit_transaction(self, producer_id: int, epoch: int) -> None:
        """Accept them from now on, until a marker of the producer is appended."""

    def dismiss_transaction(self, producer_id: int) -> None:
        """Accept no more of them."""

    def append_internal(self, batch: bytes) -> int:
        """Append a transaction's marker; return its offset. StorageError when that fails."""


class Log(TransactionalLog, Protocol):
    """A log that clients write.

    Attributes:
        failed_writes: requests to append that were refused or not acknowledged, since the start.
        rejected_bytes: of what was refused.
        failed_reads: requests to read that were answered with an error.
    """

    failed_writes: int
    rejected_bytes: int
    failed_reads: int

    @property
    def partition(self) -> int:
        """The partition's number in its topic."""

    @property
    def is_follower(self) -> bool:
        """Whether it copies the log of another broker, and serves nobody."""

    @property
    def known_epoch(self) -> int:
        """The leader epoch in which it leads or follows."""

    @property
    def size(self) -> int:
        """Bytes of records."""

    @property
    def is_full(self) -> bool:
        """Whether the last append found no space on the disk, and is written later."""

    @property
    def is_replicated(self) -> bool:
        """Whether other brokers have replicas of it: its high watermark depends on them."""

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer replicas are in sync than min.insync.replicas."""

    def when_kept(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back when this replica has all below `offset`, whatever the others have."""

    @property
    def is_caught_up_leader(self) -> bool:
        """Whether the high watermark has reached what the log had when this broker was elected."""

    def nearest_replica(self, rack: bytes, racks: dict[int, bytes], offset: int) -> int:
        """Return which other broker a reader of a rack should read from, -1 for none."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what a reader of committed records may read, exclusive."""

    def move_log_start(self, offset: int) -> None:
        """Move the log start offset forward, at most to the high watermark."""

    def when_start_copied(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back when no replica in sync begins below `offset`: True; False if it is not led."""

    def has_batch(self, records: bytes) -> bool:
        """Whether a batch repeats one of its producer's last batches: it is appended only once."""

    def append(self, records: bytes, *, needs_replicas: bool = ...) -> AppendResult:
        """Append a client's batch, without checks of the topic's configuration.

        With `needs_replicas`, it is refused while too few replicas are in sync.
        """

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return (producer id, first offset, marker's offset) of those with records in a range."""

    def read(
        self, offset: int, size_max: int, at_least_one: bool = True, end_offset: int = ...
    ) -> bytes:
        """Read as of any log, at most up to `end_offset`, at which a batch begins.

        None when the first batch does not fit and `at_least_one` is False.
        """

    @property
    def folder(self) -> str:
        """Its folder."""

    @property
    def segment_entries(self) -> list[tuple[int, int, int]]:
        """(base offset, bytes, largest timestamp or -1) of its segments, oldest first."""

    def find_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record at or after a time."""

    def find_max_timestamp(self) -> tuple[int, int] | None:
        """Return offset and timestamp of the record with the largest timestamp."""

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to the given one and its end offset; (-1, -1) for none."""
