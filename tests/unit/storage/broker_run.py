"""One run of a broker's storage on a data directory, as tests of starts and stops use it."""

import select
from pathlib import Path

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model.config import load
from broker.model.identifiers import random_id
from broker.model.topic_config import TopicConfig
from broker.storage.directories import Directories
from broker.storage.metadata.sqlite import SqliteMetaStore
from broker.storage.recovery.epochs import UncleanStarts
from broker.storage.recovery.partitions import LogFlags, Partitions
from tests.support.batches import batch_of
from tests.support.native_log import WAIT_MS

TOPIC_ID = random_id()
CONFIG = TopicConfig({}, load())
BATCH = batch_of([(b"key", b"value", ())], 1_700_000_000_000)


class BrokerRun:
    """One run of a broker on a data directory."""

    def __init__(
        self,
        path: Path,
        log_flags: LogFlags = lambda _: 0,
        directories: Directories | None = None,
    ) -> None:
        self.path = path
        self.store = SqliteMetaStore(path / "metadata.db")
        self.commit = CommitThread(1)
        self.turn = Turn(self.commit)
        self.partitions = Partitions(
            path,
            UncleanStarts(self.store, 1),
            self.turn,
            86_400_000,
            log_flags,
            directories=directories,
        )

    def open(self, topic_id: bytes = TOPIC_ID, count: int = 1) -> list[PartitionLog]:
        """Load a topic that exists, as a start does."""
        logs = self.partitions.announce_topic("topic", topic_id, range(count), CONFIG)
        for log in logs:
            error = self.partitions.load(log)
            if error is not None:
                log.take_offline(error)
        assert self.partitions.settle(logs) == {}
        for log in logs:
            log.end_loading()
        return logs

    def make(self, topic_id: bytes = TOPIC_ID, count: int = 1) -> list[PartitionLog]:
        """Make a topic that is new."""
        return self.partitions.open_topic("topic", topic_id, range(count), CONFIG)

    def end_synced(self, log: PartitionLog) -> None:
        """End a turn, and wait until all that was appended is durable."""
        self.turn.end()
        poll = select.poll()
        poll.register(self.commit.event_fd, select.POLLIN)
        while log.durable_end < log.log_end_offset:
            assert poll.poll(WAIT_MS)
            self.turn.poll_synced()

    def end_sealed(self, log: PartitionLog) -> None:
        """The same, and until every full segment is sealed."""
        self.end_synced(log)
        poll = select.poll()
        poll.register(self.commit.event_fd, select.POLLIN)
        while log.unsealed_count:
            assert poll.poll(WAIT_MS)
            self.turn.poll_synced()

    def stop(self) -> None:
        self.commit.stop()
        self.turn.poll_synced()
        self.partitions.close()
        self.store.close()

    def kill(self) -> None:
        self.turn.end()
        self.commit.stop()
        self.store.close()
