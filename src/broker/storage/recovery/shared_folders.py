"""The folders of a data directory that several brokers of one host share: one broker per folder.

    claim          a lock of this process on the name of the folder; the kernel frees it at its end
    take_over      the checkpoints of the log, and whether the broker before has closed it in order
    closed         how this broker has left the log (checkpoints/closed_log.py)
    free           the lock, once nothing of this process writes to the folder any more

A broker opens a log only after its election, and each election raises the leader epoch. A log that
was closed with the epoch before that of this election has had no other broker since. Otherwise it
is recovered from the recovery point on, as after an unclean stop.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker._native.log.segment_check import digest_of
from broker.model.errors import DataDirError
from broker.model.limits import METADATA_CALL_SECONDS
from broker.storage.checkpoints import closed_log
from broker.storage.checkpoints.closed_log import ClosedLog
from broker.storage.checkpoints.offset_checkpoints import Key
from broker.storage.checkpoints.shared_offsets import SharedOffsetCheckpoints
from broker.storage.metadata.sqlite.process_locks import LEASE_IDS, ProcessLocks

LOCKS = "partitions-locks"
_CHECKPOINTS = LEASE_IDS  # the byte of the lock on the checkpoints; those of folders are lower

# Returns the leader epoch of this broker's election, or None.
Elected: TypeAlias = Callable[[bytes, int], int | None]


class SharedFolders:
    """The folders that this broker has claimed."""

    def __init__(self, path: Path, elected: Elected) -> None:
        """Claim none yet. DataDirError when the file of the locks cannot be opened."""
        try:
            self._locks = ProcessLocks(path / LOCKS)
        except OSError as error:
            raise DataDirError(f"{path} cannot be shared: {error}") from error
        self.path = path
        self.offsets = SharedOffsetCheckpoints(path, self._exclusive)
        self._elected = elected
        self._epochs: dict[Key, int] = {}  # of the elections, by claimed partition

    def claim(self, topic: str, topic_id: bytes, number: int) -> bool:
        """Claim the folder of a partition that this broker leads; False: another process has it."""
        key = (topic, number)
        if key in self._epochs:
            return True
        epoch = self._elected(topic_id, number)
        if epoch is None or not self._take(key):
            return False
        self._epochs[key] = epoch
        return True

    @contextmanager
    def held(self, topic: str, number: int) -> Iterator[bool]:
        """Hold a folder within the block; whether no other process has it."""
        key = (topic, number)
        is_taken = key not in self._epochs and self._take(key)
        try:
            yield is_taken or key in self._epochs
        finally:
            if is_taken:
                self._locks.free(_byte(key))

    def free(self, topic: str, number: int) -> None:
        """Let other processes claim a folder."""
        key = (topic, number)
        if self._epochs.pop(key, None) is not None:
            self.offsets.leave(key)
            self._locks.free(_byte(key))

    def take_over(self, log: PartitionLog) -> ClosedLog | None:
        """Read the checkpoints of a log; return how it was left if no broker has had it since."""
        key, folder = (log.topic, log.partition), Path(log.folder)
        self.offsets.adopt(key)
        epoch = self._epochs[key]
        left = closed_log.read(folder)
        if left is None:
            return None
        # One of this epoch, or of a store that was restored since, would count at a later election.
        closed_log.remove(folder, is_durable=left.leader_epoch >= epoch)
        if left.leader_epoch not in (epoch - 1, epoch):
            return None
        self.offsets.set_recovery_point(log, left.log_end_offset)
        self.offsets.note_start(key, left.log_start_offset)
        return left

    def closed(self, logs: Iterable[tuple[PartitionLog, int, str]], *, is_one_sync: bool) -> None:
        """Write how this broker has left logs that it has closed in order. Raises StorageError.

        Args:
            logs: with the end offset of each, and the digest of its segments.
            is_one_sync: sync the file system, and not each file.
        """
        left: dict[Path, ClosedLog] = {}
        for log, log_end_offset, digest in logs:
            key = (log.topic, log.partition)
            epoch, start = self._epochs[key], self.offsets.log_start(key)
            left[Path(log.folder)] = ClosedLog(epoch, log_end_offset, start, digest)
        closed_log.write_all(self.path, left, is_one_sync=is_one_sync)

    def close(self) -> None:
        """Free all folders."""
        self._locks.close()

    def _exclusive(self) -> AbstractContextManager[None]:
        return self._locks.held(_CHECKPOINTS, METADATA_CALL_SECONDS)

    def _take(self, key: Key) -> bool:
        try:
            self._locks.take(_byte(key))
        except BlockingIOError:
            return False
        return True


def _byte(key: Key) -> int:
    return int(digest_of(f"{key[0]}-{key[1]}".encode())) % LEASE_IDS
