"""The replicas of one partition as native logs, without a broker: a test copies between them."""

from pathlib import Path
from typing import Any

from broker._native.log.partition_log import PartitionLog
from broker.model.log_results import LogState
from tests.support.native_log import Logs, appended, records

READ_BYTES = 1 << 20
BATCH = records()  # of one record
LAG_MS = 30_000  # replica.lag.time.max.ms


class Replica:
    """One broker's replica."""

    def __init__(self, folder: Path, broker_id: int, **settings: Any) -> None:
        """Create an empty log in a data directory of its own."""
        folder.mkdir(exist_ok=True)
        self.logs = Logs(folder)
        self.id = broker_id
        self.log = self.logs.create(**settings)

    def settle(self) -> None:
        """End the turn and sync everything."""
        self.logs.sync(self.log)


class Replicas:
    """Replicas 1 to `count`; at first, 1 leads in epoch 1 and all are in sync."""

    def __init__(self, path: Path, count: int = 3, **settings: Any) -> None:
        """Create them, with the same settings of their topic."""
        self.all = {
            number: Replica(path / str(number), number, **settings)
            for number in range(1, count + 1)
        }
        self.leader_id = 1
        self.epoch = 0
        self.elect(1)

    @property
    def ids(self) -> list[int]:
        """All brokers."""
        return list(self.all)

    @property
    def leader(self) -> PartitionLog:
        """The leader's log."""
        return self.log(self.leader_id)

    def log(self, broker_id: int) -> PartitionLog:
        """Return one replica's log."""
        return self.all[broker_id].log

    def elect(self, broker_id: int, isr: list[int] | None = None) -> None:
        """Begin the next epoch with this leader."""
        self.epoch += 1
        self.leader_id = broker_id
        for other in self.ids:
            if other != broker_id:
                self.log(other).follow(self.epoch)
        self.leader.lead(self.epoch, broker_id, self.ids, isr or self.ids)

    def settle(self, broker_id: int | None = None) -> None:
        """End the turn of one replica, or all, and sync it."""
        for each in self.ids if broker_id is None else [broker_id]:
            self.all[each].settle()

    def report(self, broker_id: int, replica_epoch: int = -1) -> LogState:
        """Have a follower report the end that its disk has."""
        return self.leader.report(broker_id, self.log(broker_id).kept_offset, replica_epoch)

    def copy(self, broker_id: int, size_max: int = READ_BYTES) -> None:
        """Have a follower report, and append what the leader has for it, without a sync."""
        assert self.report(broker_id) is LogState.OK
        log = self.log(broker_id)
        data = self.leader.read_for_replica(log.log_end_offset, size_max)
        assert self.take(broker_id, data) is LogState.OK

    def take(self, broker_id: int, data: bytes) -> LogState:
        """Have a follower append batches, with the leader's high watermark and start."""
        return self.log(broker_id).copy(
            data,
            high_watermark=self.leader.high_watermark,
            log_start=self.leader.log_start_offset,
        )

    def replicate(self, *broker_ids: int) -> None:
        """Have followers copy all that the leader has, on their disks and reported."""
        self.settle(self.leader_id)
        for each in broker_ids or self.ids:
            if each != self.leader_id:
                while self.log(each).log_end_offset < self.leader.local_end:
                    self.copy(each)
                self.settle(each)
                assert self.report(each) is LogState.OK

    def stop(self) -> None:
        """Stop the sync threads."""
        for each in self.all.values():
            each.logs.commit.stop()
            each.logs.turn.poll_synced()


def watermarks(replicas: Replicas) -> list[int]:
    """Return the high watermark of each."""
    return [replicas.log(each).high_watermark for each in replicas.ids]


def fill(replicas: Replicas, count: int) -> None:
    """Append batches of one record to the leader, on its disk."""
    for _ in range(count):
        appended(replicas.leader, BATCH)
    replicas.settle(replicas.leader_id)
