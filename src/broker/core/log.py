"""What core asks of a partition's log; the native `PartitionLog` is one.

A client's log and one that a coordinator keeps its memory in are read and waited for in the same
way, and appended to in different ones.
"""

from collections.abc import Callable
from typing import Protocol


class ReadableLog(Protocol):
    """What everybody may know of a log."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can still be read."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given out."""

    @property
    def high_watermark(self) -> int:
        """The end of what anybody may read, exclusive."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of appends from now on."""

    @property
    def is_offline(self) -> bool:
        """Whether the disk failed under this log; it stays offline for good."""

    def read(self, offset: int, size_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one if any is visible."""

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back once the high watermark is at `offset`: True; False if the log failed."""


class SyncedLog(ReadableLog, Protocol):
    """A log whose bytes somebody needs on the disk."""

    def when_synced(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back once the disk has all below `offset`, whatever the durability: as above."""


class InternalLog(SyncedLog, Protocol):
    """A log that a coordinator writes."""

    @property
    def damaged_ranges(self) -> list[tuple[int, int]]:
        """The (offset, end offset) of records that `read` refuses, ascending."""

    def append_internal(self, batch: bytes) -> int:
        """Append a batch of our own; its base offset. StorageError when that fails.

        NoRoom, and nothing is different, for one more producer than the log may remember.
        """


class TransactionalLog(SyncedLog, Protocol):
    """A log as transactions see it, which a coordinator opens to a producer and ends."""

    @property
    def is_loading(self) -> bool:
        """Whether its files are still being recovered: nothing else can be asked of it."""

    @property
    def active_producers(self) -> list[tuple[int, int, int, int, int, int]]:
        """What is known of the producers, -1 for what is not.

        Id, epoch, last sequence, last timestamp, coordinator epoch, start of the open transaction.
        """

    def active_producer(self, producer_id: int) -> tuple[int, int, int, int, int, int] | None:
        """The same of one producer; None when nothing is known of it."""

    @property
    def open_transactions(self) -> dict[int, int]:
        """First offset of each producer's open transaction."""

    def admits_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer's transactional batches of an epoch are taken."""

    def admit_transaction(self, producer_id: int, epoch: int) -> None:
        """Take them from now on, until a marker of the producer is appended."""

    def dismiss_transaction(self, producer_id: int) -> None:
        """Take no more of them."""

    def append_internal(self, batch: bytes) -> int:
        """Append a transaction's marker; its offset. StorageError when that fails."""


class Log(TransactionalLog, Protocol):
    """A log that clients write."""

    @property
    def partition(self) -> int:
        """The partition's number in its topic."""

    @property
    def size(self) -> int:
        """Bytes of records."""

    @property
    def is_full(self) -> bool:
        """Whether what was appended last found no room on the disk, and is written later."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what a reader of committed records may read, exclusive."""

    def move_log_start(self, offset: int) -> None:
        """Let the log begin later, at most at the high watermark; nobody reads what is below."""

    def has_batch(self, records: bytes) -> bool:
        """Whether a batch repeats one of its producer's last here, which is appended only once."""

    def append(self, records: bytes) -> tuple[int | tuple[str, int], int]:
        """Append a client's batch: 0 or what was found, and its base offset (see `append`)."""

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Producer id, first offset and marker's offset of those with records in a range."""

    def read(
        self, offset: int, size_max: int, at_least_one: bool = True, end_offset: int = ...
    ) -> bytes:
        """As of any log, at most up to `end_offset`, at which a batch begins.

        None when the first does not fit and `at_least_one` is not asked for.
        """

    @property
    def folder(self) -> str:
        """Where its files are."""

    @property
    def segment_entries(self) -> list[tuple[int, int, int]]:
        """(base offset, bytes, largest timestamp or -1) of its segments, oldest first."""

    def find_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record at or after a time."""

    def find_max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the latest record."""

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to the given one, and where it ended; (-1, -1) for none."""
