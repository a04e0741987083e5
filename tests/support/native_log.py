"""Native logs without a broker: a test plays the event loop and ends the turns itself."""

import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker._native.log import recovery, seal
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.codec.compression import decompress_into, decompress_sent_into
from broker.model.log_results import AppendStatus
from tests.support.batches import batch_of, header

TOPIC_ID = b"topic id of 16 b"
WAIT_MS = 30_000  # how long a test waits for something that must happen
NOW_MS = 1_700_000_000_000


class Logs:
    """The partitions of one topic in one data directory, under one turn."""

    def __init__(self, path: Path, commit: CommitThread | None = None) -> None:
        """Start one sync thread, so that jobs finish in order, or share another's."""
        self.path = path
        self.commit = CommitThread(1) if commit is None else commit
        self.turn = Turn(self.commit)
        self.turn.decompress = decompress_into
        self.turn.decompress_sent = decompress_sent_into
        self.turn.now_ms = self.turn.steady_ms = NOW_MS

    def folder(self, partition: int = 0) -> Path:
        """Return the folder of a partition."""
        return self.path / f"topic-{partition}"

    def unopened(self, partition: int = 0, **settings: Any) -> PartitionLog:
        """Return a log whose files were not opened yet."""
        folder = self.folder(partition)
        folder.mkdir(exist_ok=True)
        return PartitionLog(self.turn, "topic", TOPIC_ID, partition, str(folder), **settings)

    def create(self, partition: int = 0, **settings: int) -> PartitionLog:
        """Create a new log."""
        log = self.unopened(partition, **settings)
        recovery.create(log)
        return log

    def attach(
        self,
        log_end_offset: int,
        *,
        partition: int = 0,
        epochs: Sequence[tuple[int, int]] = ((0, 0),),
        snapshot: bytes = b"",
        **settings: int,
    ) -> PartitionLog:
        """Open a log after a clean stop."""
        log = self.unopened(partition, **settings)
        assert recovery.attach(
            log,
            self.base_offsets(partition),
            log_start_offset=0,
            log_end_offset=log_end_offset,
            epochs=list(epochs),
            snapshot=snapshot,
        )
        return log

    def recover(
        self,
        *,
        partition: int = 0,
        recovery_point: int = 0,
        epochs: Sequence[tuple[int, int]] = ((0, 0),),
        snapshot: bytes = b"",
        snapshot_offset: int = 0,
        synced_end: int = 0,
        is_copy: bool = False,
        **settings: int,
    ) -> tuple[PartitionLog, list[int]]:
        """Recover a log after a crash: return it, and the segments beyond its end."""
        log = self.unopened(partition, **settings)
        behind = recovery.recover(
            log,
            self.base_offsets(partition),
            log_start_offset=0,
            recovery_point=recovery_point,
            epochs=list(epochs),
            snapshot=snapshot,
            snapshot_offset=snapshot_offset,
            synced_end=synced_end,
            is_copy=is_copy,
        )
        if log.is_group_commit:
            recovery.settle(log, is_synced=False)
        return log, behind

    def sealed_offset(self, partition: int = 0) -> int:
        """Return the offset below which all segments are known to be sealed."""
        return seal.sealed_offset(str(self.folder(partition)))

    def base_offsets(self, partition: int = 0) -> list[int]:
        """Return the base offsets of the segment files that are there."""
        return sorted(int(file.stem) for file in self.folder(partition).glob("*.log"))

    def sync(self, log: PartitionLog) -> None:
        """End the turn and wait until everything appended is durable, or the log is offline."""
        self.turn.end()
        while log.durable_end < log.log_end_offset and not log.is_offline:
            self.take_synced()

    def settle(self, log: PartitionLog) -> None:
        """Sync until every segment but the active one is sealed."""
        self.sync(log)
        while log.unsealed_count:
            self.take_synced()

    def take_synced(self) -> None:
        """Wait for the sync thread and take its finished jobs."""
        poll = select.poll()
        poll.register(self.commit.event_fd, select.POLLIN)
        assert poll.poll(WAIT_MS), "no sync finished in time"
        self.turn.poll_synced()


def records(count: int = 1, *, size: int = 8, timestamp: int = NOW_MS, **fields: Any) -> bytes:
    """Return a batch of `count` records of `size` bytes."""
    values: list[Any] = [(None, bytes([65 + place % 26]) * size, []) for place in range(count)]
    return batch_of(values, timestamp, **fields)


def placed(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return a batch as the log stores it."""
    return base_offset.to_bytes(8) + batch[8:12] + leader_epoch.to_bytes(4) + batch[16:]


def batches(data: bytes) -> list[bytes]:
    """Split the read bytes into batches."""
    found = []
    position = 0
    while position < len(data):
        size = header(data, position).size
        found.append(data[position : position + size])
        position += size
    return found


def appended(log: PartitionLog, batch: bytes) -> int:
    """Append a batch that must be accepted; return its base offset."""
    status, base_offset, *_ = log.append(batch)
    assert status is AppendStatus.APPENDED, status
    return base_offset


def bases_of(log: PartitionLog) -> list[int]:
    """Return the base offsets of a log's segments."""
    return [base for base, _, _ in log.segment_entries]
