"""A replica's log with a random past, and what must be left of it once it is cut.

Its batches are of several leader epochs and producers, some with transactions, over several
segments; checkpoints, snapshots and rolls are where a broker has them. The expected state is that
of another log that has read the same batches from the first on.
"""

import select
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model.config import load
from broker.model.log_results import LogEvent
from broker.model.topic_config import TopicConfig
from broker.storage.directories import Directories
from broker.storage.recovery.epochs import ElectedEpochs
from broker.storage.recovery.partitions import Partitions
from tests.support.batches import batch_of, header
from tests.support.native_log import NOW_MS, TOPIC_ID, WAIT_MS, appended, batches, records

PRODUCER_EPOCH = 3
SEGMENT_BYTES = 1024
PRODUCERS = (1, 2, 3)


class State(NamedTuple):
    """What a log has, and what it knows of it."""

    content: list[bytes]
    end_offset: int
    epochs: list[tuple[int, int]]
    producers: list[tuple[int, ...]]
    open_transactions: dict[int, int]
    aborted: list[tuple[int, int, int]]
    stable_offset: int


class _Epochs(ElectedEpochs):
    """Epochs of a log that is neither led nor followed: all that it has can be read."""

    are_elected = False


class CutLog:
    """One log of a data directory; the test plays the loop."""

    def __init__(
        self,
        path: Path,
        commit: CommitThread,
        durability: str = "group-commit",
        *,
        is_copy: bool = False,
        directories: Directories | None = None,
    ) -> None:
        self.path = path
        self.commit = commit
        self.turn = Turn(commit)
        self.turn.now_ms = self.turn.steady_ms = NOW_MS
        self.losses: list[None] = []  # of logs that miss records that were durable
        self.partitions = Partitions(
            path,
            ElectedEpochs() if is_copy else _Epochs(),
            self.turn,
            86_400_000,
            when_lost=lambda: self.losses.append(None),
            directories=directories,
        )
        settings = {
            "segment.bytes": str(SEGMENT_BYTES),
            "index.interval.bytes": "100",
            "polylog.durability": durability,
        }
        self.config = TopicConfig(settings, load())
        self._sequences: dict[int, int] = {}

    def make(self) -> PartitionLog:
        """Make a new log."""
        (log,) = self.partitions.open_topic("topic", TOPIC_ID, [0], self.config)
        return log

    def open(self) -> PartitionLog:
        """Open the log as a start does."""
        (log,) = self.partitions.announce_topic("topic", TOPIC_ID, [0], self.config)
        assert self.partitions.load(log) is None
        assert self.partitions.settle([log]) == {}
        log.end_loading()
        return log

    def grow(self, log: PartitionLog, rng: Random, steps: int) -> None:
        """Append batches, and do what a broker does meanwhile."""
        for _ in range(steps):
            number = rng.random()
            if number < 0.1:
                log.start_epoch(log.leader_epoch + rng.randint(1, 2))
            elif number < 0.2:
                self.checkpoint()
            elif number < 0.45:
                appended(log, records(rng.randint(1, 3), size=rng.randint(1, 60)))
            elif number < 0.65:
                self._send(log, rng, rng.choice(PRODUCERS))
            else:
                self._transact(log, rng, 10 + rng.choice(PRODUCERS))
            if rng.random() < 0.3:
                self.finish(log)

    def finish(self, log: PartitionLog) -> None:
        """End the turn; have everything synced, and write the snapshots of rolls."""
        self.turn.end()
        poll = select.poll()
        poll.register(self.commit.event_fd, select.POLLIN)
        while log.is_group_commit and (log.durable_end < log.log_end_offset or log.unsealed_count):
            assert poll.poll(WAIT_MS)
            self.turn.poll_synced()
        while log.is_syncing:
            assert poll.poll(WAIT_MS)
            self.turn.poll_synced()
        events, self.turn.events = self.turn.events, []
        if any(event == LogEvent.ROLLED for event, _ in events):
            self.partitions.write_snapshot(log, *log.producer_snapshot())

    def checkpoint(self) -> None:
        """Write the checkpoints."""
        points = self.partitions.plan_checkpoint()
        assert self.partitions.prepare_checkpoint() == {}
        self.partitions.write_checkpoint(points)

    def cut(self, log: PartitionLog, offset: int) -> None:
        """Cut the log, as the loop has it done."""
        log.begin_loading()
        assert log.hold()
        for _ in self.partitions.read_before_cut(log, offset):
            pass
        self.partitions.truncate(log, offset)
        log.end_hold()
        log.end_loading()

    def begin_anew(self, log: PartitionLog, offset: int) -> None:
        """Empty the log, likewise."""
        log.begin_loading()
        assert log.hold()
        self.partitions.begin_anew(log, offset)
        log.end_hold()
        log.end_loading()

    def _send(self, log: PartitionLog, rng: Random, producer_id: int, **fields: Any) -> None:
        count = rng.randint(1, 2)
        sequence = self._sequence_of(log, producer_id)
        appended(
            log,
            records(
                count,
                size=rng.randint(1, 60),
                producer_id=producer_id,
                producer_epoch=PRODUCER_EPOCH,
                base_sequence=sequence,
                **fields,
            ),
        )
        self._sequences[producer_id] = sequence + count

    def _sequence_of(self, log: PartitionLog, producer_id: int) -> int:
        known = log.active_producer(producer_id)
        return 0 if known is None or known[2] < 0 else known[2] + 1

    def _transact(self, log: PartitionLog, rng: Random, producer_id: int) -> None:
        if producer_id in log.open_transactions and rng.random() < 0.5:
            log.append_internal(marker(producer_id, rng.randint(0, 1)))
            return
        log.admit_transaction(producer_id, PRODUCER_EPOCH)
        self._send(log, rng, producer_id, is_transactional=True)


def marker(producer_id: int, kind: int) -> bytes:
    """Return a control batch: 0 aborts, 1 commits."""
    key = (0).to_bytes(2) + kind.to_bytes(2)
    value = (0).to_bytes(2) + (7).to_bytes(4)
    return batch_of(
        [(key, value, [])],
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=PRODUCER_EPOCH,
        is_transactional=True,
        is_control=True,
    )


def content_of(log: PartitionLog) -> list[bytes]:
    """Return all batches that can be read."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.high_watermark and (data := log.read(offset, 1 << 20)):
        found += batches(data)
        offset = header(found[-1]).last_offset + 1
    return found


def state_of(log: PartitionLog) -> State:
    """Return everything that readers, producers and followers see."""
    return State(
        content_of(log),
        log.log_end_offset,
        [each for each in log.epoch_entries if each[1] < log.log_end_offset],
        sorted(log.active_producers),
        log.open_transactions,
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        log.last_stable_offset,
    )


def reading(path: Path, turn: Turn, stored: list[bytes]) -> PartitionLog:
    """Return a log that reads these batches from the first on."""
    path.mkdir()
    log = PartitionLog(turn, "topic", TOPIC_ID, 0, str(path))
    (path / f"{0:020d}.log").write_bytes(b"".join(stored))
    recovery.recover(
        log, [0], log_start_offset=0, recovery_point=0, epochs=[], snapshot=b"", snapshot_offset=0
    )
    recovery.settle(log, is_synced=False)
    return log


def kept(stored: list[bytes], offset: int) -> list[bytes]:
    """Return the batches that stay when a log is cut at an offset."""
    return [each for each in stored if header(each).last_offset < offset]


def files_of(log: PartitionLog) -> set[str]:
    """Return the names of the files of segments and snapshots."""
    names = file_ops.list_folder(log.folder)
    return {name for name in names if name[:20].isdigit()}
