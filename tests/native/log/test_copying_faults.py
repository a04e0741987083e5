"""A follower on a bad disk, or without descriptors: a refused copy has changed nothing."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from broker.model.log_results import LogState
from tests.native.log.test_transactions import ABORT, COMMIT, end, send
from tests.support.native_log import appended, batches, placed, records
from tests.support.native_replicas import Replicas

BATCH = records()
LARGE = records(size=limits.STAGED_BATCH_BYTES_MAX)  # written at once
FOLLOWER = 2


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    """Two replicas, whose file operations a test may make fail."""
    replicas = Replicas(tmp_path, 2)
    file_ops.start_recording()
    yield replicas
    replicas.stop()
    file_ops.stop_recording()


@pytest.fixture
def log(replicas: Replicas) -> PartitionLog:
    """The follower's log, with one batch on its disk."""
    appended(replicas.leader, BATCH)
    replicas.replicate()
    return replicas.log(FOLLOWER)


def retry(replicas: Replicas) -> None:
    """Write again what found no space."""
    turn = replicas.all[FOLLOWER].logs.turn
    turn.retry_full()
    turn.end()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_copy_without_disk_space_is_refused(
    replicas: Replicas, log: PartitionLog, error: int
) -> None:
    file_ops.fail("write", ".log", error)

    assert log.copy(placed(LARGE, 1, 1), high_watermark=1) is LogState.FULL
    assert (log.is_offline, log.log_end_offset, log.kept_offset) == (False, 1, 1)
    assert log.copy(placed(LARGE, 1, 1), high_watermark=2) is LogState.OK
    replicas.settle(FOLLOWER)
    assert (log.log_end_offset, log.high_watermark) == (2, 2)


def test_batches_before_the_one_without_space_stay(replicas: Replicas, log: PartitionLog) -> None:
    file_ops.fail("write", ".log", errno.ENOSPC, after=1)

    data = placed(BATCH, 1, 1) + placed(LARGE, 2, 1)
    assert log.copy(data, high_watermark=1) in {LogState.FULL, LogState.OK}

    replicas.settle(FOLLOWER)
    end_offset = log.log_end_offset
    rest = data if end_offset == 1 else placed(LARGE, 2, 1) if end_offset == 2 else b""
    assert log.copy(rest, high_watermark=3) is LogState.OK
    replicas.settle(FOLLOWER)
    assert log.read(1, 1 << 20) + log.read(2, 1 << 20)[: len(LARGE)]
    assert log.high_watermark == log.log_end_offset == 3


def test_staged_copies_without_space_are_kept_and_not_reported(
    replicas: Replicas, log: PartitionLog
) -> None:
    assert log.copy(placed(BATCH, 1, 1), high_watermark=2) is LogState.OK
    file_ops.fail("write", ".log", errno.ENOSPC)
    replicas.all[FOLLOWER].logs.turn.end()

    assert log.is_full
    assert (log.local_end, log.kept_offset, log.high_watermark) == (1, 1, 1)
    assert log.copy(placed(BATCH, 2, 1), high_watermark=2) is LogState.FULL
    retry(replicas)
    assert not log.is_full
    assert log.copy(placed(BATCH, 2, 1), high_watermark=3) is LogState.OK
    replicas.settle(FOLLOWER)
    assert (log.kept_offset, log.high_watermark) == (3, 3)
    assert len(batches(log.read(0, 1 << 20))) == 3


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_without_a_descriptor_a_copy_is_refused_once(
    replicas: Replicas, log: PartitionLog, error: int
) -> None:
    files = replicas.all[FOLLOWER].logs.turn.files
    for _ in range(3):
        files.begin_tick()
    files.close_idle(60_000_000)
    file_ops.fail("open", ".log", error)

    assert log.copy(placed(BATCH, 1, 1), high_watermark=1) is LogState.OFFLINE
    assert (log.is_offline, log.log_end_offset) == (False, 1)
    assert log.copy(placed(BATCH, 1, 1), high_watermark=2) is LogState.OK
    replicas.settle(FOLLOWER)
    assert log.high_watermark == 2


def test_a_failed_write_of_a_copy_takes_the_log_offline(
    replicas: Replicas, log: PartitionLog
) -> None:
    file_ops.fail("write", ".log", errno.EIO)

    assert log.copy(placed(LARGE, 1, 1), high_watermark=1) is LogState.OFFLINE
    assert log.is_offline
    assert log.copy(placed(BATCH, 1, 1), high_watermark=1) is LogState.OFFLINE
    assert log.log_end_offset == 1


# ---- the index of aborted transactions ----------------------------------------------------------


def with_transactions(replicas: Replicas) -> None:
    """Append transactions that overlap, of which two are aborted."""
    leader = replicas.leader
    for round_ in range(2):
        for producer_id in (1, 2, 3):
            send(leader, producer_id, round_)
        for producer_id in (2, 1, 3):
            end(leader, producer_id, ABORT if producer_id == 2 else COMMIT)


def index_of(replicas: Replicas, broker_id: int) -> bytes:
    return (replicas.all[broker_id].logs.folder() / f"{0:020d}.txnindex").read_bytes()


def test_a_copy_has_the_leaders_index_of_aborted_transactions(replicas: Replicas) -> None:
    with_transactions(replicas)
    replicas.replicate()
    replicas.copy(FOLLOWER)  # the high watermark

    log, leader = replicas.log(FOLLOWER), replicas.leader
    assert len(leader.aborted_transactions(0, leader.high_watermark)) == 2
    for start in range(leader.high_watermark):
        found = log.aborted_transactions(start, leader.high_watermark)
        assert found == leader.aborted_transactions(start, leader.high_watermark)
    assert index_of(replicas, FOLLOWER) == index_of(replicas, replicas.leader_id)
    assert log.last_stable_offset == leader.last_stable_offset == leader.high_watermark


def test_a_marker_whose_entry_finds_no_space_is_copied_again(replicas: Replicas) -> None:
    with_transactions(replicas)
    replicas.settle(replicas.leader_id)
    file_ops.fail("write", ".txnindex", errno.ENOSPC)
    log = replicas.log(FOLLOWER)
    stored = replicas.leader.read_for_replica(0, 1 << 20)

    assert log.copy(stored, high_watermark=0) is LogState.FULL
    refused = log.log_end_offset
    assert refused == 3  # the first marker
    assert sorted(log.open_transactions) == [1, 2, 3]

    rest = b"".join(batches(stored)[refused:])
    assert log.copy(rest, high_watermark=0) is LogState.OK
    replicas.replicate()
    replicas.copy(FOLLOWER)
    assert index_of(replicas, FOLLOWER) == index_of(replicas, replicas.leader_id)
    assert log.open_transactions == {}
