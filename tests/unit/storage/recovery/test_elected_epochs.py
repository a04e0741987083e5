"""OffsetForLeaderEpoch over leader epochs that elections have begun, after starts of every kind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.storage.recovery.epochs import ElectedEpochs
from broker.storage.recovery.partitions import Partitions
from tests.unit.storage.broker_run import BATCH, BrokerRun


class ElectedRun(BrokerRun):
    """A run of a broker of a cluster: only elections begin leader epochs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partitions = Partitions(path, ElectedEpochs(), self.turn, 86_400_000, lambda _: 0)


def append(run: BrokerRun, log: PartitionLog, count: int) -> None:
    for _ in range(count):
        log.append(BATCH)
    run.end_synced(log)


def release(run: BrokerRun, log: PartitionLog) -> None:
    log.begin_loading()
    run.partitions.release(log)
    log.release()
    run.stop()


def kill(run: BrokerRun, _log: PartitionLog) -> None:
    run.kill()


def stop(run: BrokerRun, _log: PartitionLog) -> None:
    run.stop()


def checkpoint_and_kill(run: BrokerRun, _log: PartitionLog) -> None:
    assert run.partitions.prepare_checkpoint() == {}
    run.partitions.write_checkpoint(run.partitions.plan_checkpoint())
    run.kill()


@pytest.mark.parametrize("end", [kill, stop, release, checkpoint_and_kill])
def test_each_election_with_records_is_found_after_a_start(
    tmp_path: Path, end: Callable[[BrokerRun, PartitionLog], None]
) -> None:
    run = ElectedRun(tmp_path)
    (log,) = run.make()
    log.start_epoch(3)
    append(run, log, 2)
    log.start_epoch(5)
    append(run, log, 1)
    end(run, log)

    again = ElectedRun(tmp_path)
    (log,) = again.open()
    log.start_epoch(6)  # of the election of the new incarnation
    append(again, log, 1)

    assert log.leader_epoch == 6
    assert [log.epoch_end(epoch) for epoch in (3, 4, 5, 6, 7)] == [
        (3, 2),
        (3, 2),
        (5, 3),
        (6, 4),
        (-1, -1),
    ]
    again.stop()


@pytest.mark.parametrize("end", [kill, stop, release, checkpoint_and_kill])
def test_an_election_without_records_ends_where_the_one_before_it_does(
    tmp_path: Path, end: Callable[[BrokerRun, PartitionLog], None]
) -> None:
    """Whether the epoch itself is remembered depends on how the broker ended; the offset does not.

    Kafka forgets such an epoch when the next one begins.
    """
    run = ElectedRun(tmp_path)
    (log,) = run.make()
    log.start_epoch(3)
    append(run, log, 2)
    log.start_epoch(5)
    end(run, log)

    again = ElectedRun(tmp_path)
    (log,) = again.open()
    log.start_epoch(6)
    append(again, log, 1)

    found, offset = log.epoch_end(5)
    assert (found in (3, 5), offset) == (True, 2)
    assert log.epoch_end(3) == (3, 2)
    assert log.epoch_end(6) == (6, 3)
    again.stop()
