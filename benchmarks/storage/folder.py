"""Logs without a broker; the benchmark ends the turns."""

import shutil
from pathlib import Path

from broker._native.log import recovery
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn

SYNC_THREADS = 2
TOPIC_ID = b"topic id of 16 b"
NOW_MS = 1_700_000_000_000


class Logs:
    """Partitions in one folder under one turn."""

    def __init__(self, folder: Path) -> None:
        """Start the sync threads."""
        self.folder = folder
        self.commit = CommitThread(SYNC_THREADS)
        self.turn = Turn(self.commit)
        self.turn.now_ms = NOW_MS
        self._logs: list[PartitionLog] = []

    def closed(self, topic: str, **settings: bool) -> PartitionLog:
        """Return a log that has not been recovered."""
        folder = self.folder / f"{topic}-0"
        folder.mkdir(exist_ok=True)
        log = PartitionLog(self.turn, topic, TOPIC_ID, 0, str(folder), **settings)
        self._logs.append(log)
        return log

    def create(self, topic: str, **settings: bool) -> PartitionLog:
        """Return a new log."""
        log = self.closed(topic, **settings)
        recovery.create(log)
        return log

    def remove(self) -> None:
        """Stop the threads and remove all files."""
        for log in self._logs:
            log.retire()
        self.commit.stop()
        self.turn.poll_synced()
        for log in self._logs:
            shutil.rmtree(log.folder)
