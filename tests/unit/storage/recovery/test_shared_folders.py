"""Partitions of a data directory that several brokers share: one opener of a folder at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model.identifiers import random_id
from broker.storage.checkpoints import closed_log
from broker.storage.checkpoints.closed_log import ClosedLog
from broker.storage.recovery.epochs import ElectedEpochs
from broker.storage.recovery.partitions import Partitions
from broker.storage.recovery.shared_folders import SharedFolders
from tests.unit.storage.broker_run import BATCH, TOPIC_ID, BrokerRun


class Worker(BrokerRun):
    """One of the brokers; a test elects it, with the leader epoch that it gives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch: int | None = None
        self.commit = CommitThread(1)
        self.turn = Turn(self.commit)
        self.folders = SharedFolders(path, lambda _topic_id, _number: self.epoch)
        self.partitions = Partitions(
            path, ElectedEpochs(), self.turn, 86_400_000, shared=self.folders
        )

    def lead(self, epoch: int, topic_id: bytes = TOPIC_ID) -> PartitionLog:
        """Open the log after an election."""
        self.epoch = epoch
        assert self.partitions.claim("topic", topic_id, [0]) == [0]
        [log] = super().open(topic_id)
        if log.leader_epoch < epoch:
            log.start_epoch(epoch)
        return log

    def append(self, log: PartitionLog) -> None:
        log.append(BATCH)
        self.end_synced(log)

    def release(self, log: PartitionLog) -> None:
        """Close the log in order, and let others have it."""
        log.begin_loading()
        self.partitions.release(log)
        log.retire()
        self.partitions.free("topic", 0)

    def crash(self) -> None:
        """End without a word: the kernel frees the locks."""
        self.folders.close()
        self.commit.stop()


@contextmanager
def workers(path: Path, count: int) -> Iterator[list[Worker]]:
    made = [Worker(path) for _ in range(count)]
    yield made
    for each in made:
        each.crash()


def recovered(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a log was recovered since the last call."""
    lines = [each.getMessage() for each in caplog.records]
    caplog.clear()
    # Nobody but brokers changes these files: what one has left is used, or it does not count.
    assert not any(line.startswith("segments changed") for line in lines)
    return any(line.startswith("log recovered") for line in lines)


@pytest.fixture(autouse=True)
def _debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")


def test_a_folder_is_claimed_by_one_broker_at_a_time(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        second.epoch = 2

        assert second.partitions.claim("topic", TOPIC_ID, [0, 1]) == [1]
        first.release(log)
        assert second.partitions.claim("topic", TOPIC_ID, [0]) == [0]


def test_a_folder_is_claimed_only_after_an_election(tmp_path: Path) -> None:
    with workers(tmp_path, 1) as (only,):
        assert only.partitions.claim("topic", TOPIC_ID, [0]) == []


def test_the_folder_of_a_broker_that_has_crashed_can_be_claimed(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (first, second):
        first.append(first.lead(1))
        first.crash()

        assert second.lead(2).log_end_offset == 1


def test_a_log_that_was_handed_over_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        first.append(log)
        first.release(log)

        again = second.lead(2)
        assert (again.log_end_offset, recovered(caplog)) == (1, False)
        second.append(again)
        second.release(again)
        back = first.lead(3)
        assert (back.log_end_offset, recovered(caplog)) == (2, False)


def test_a_log_whose_broker_has_crashed_is_recovered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        first.append(log)
        first.crash()

        again = second.lead(2)
        assert (again.log_end_offset, recovered(caplog)) == (1, True)


def test_what_a_broker_has_left_does_not_count_after_another_one_had_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 3) as (first, second, third):
        log = first.lead(1)
        first.append(log)
        first.release(log)
        left = closed_log.read(Path(log.folder))
        assert left is not None
        second.append(second.lead(2))
        second.crash()
        # Also if the removal of the file was lost with the power.
        closed_log.write_all(tmp_path, {Path(log.folder): left}, is_one_sync=False)

        again = third.lead(3)
        assert (again.log_end_offset, recovered(caplog)) == (2, True)


def test_a_log_that_is_opened_again_in_the_same_epoch_counts_as_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        first.append(log)
        first.release(log)
        again = first.lead(1)  # its successor has failed
        assert not recovered(caplog)
        assert closed_log.read(Path(log.folder)) is None
        first.append(again)
        first.crash()

        assert (second.lead(2).log_end_offset, recovered(caplog)) == (2, True)


def test_a_file_of_a_later_epoch_than_that_of_the_election_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 1) as (only,):
        log = only.lead(1)
        only.append(log)
        only.release(log)
        folder = Path(log.folder)
        left = closed_log.read(folder)
        assert left is not None
        later = {folder: left._replace(leader_epoch=9)}  # the store is an older backup
        closed_log.write_all(tmp_path, later, is_one_sync=False)

        only.lead(2)

        assert recovered(caplog)
        assert closed_log.read(folder) is None


@pytest.mark.parametrize("is_one_sync", [False, True])
def test_how_a_log_was_left_is_read_as_it_was_written(tmp_path: Path, is_one_sync: bool) -> None:
    (tmp_path / "t-0").mkdir()
    left = ClosedLog(7, 100, 40, "0123456789abcdef")

    closed_log.write_all(tmp_path, {tmp_path / "t-0": left}, is_one_sync=is_one_sync)

    assert closed_log.read(tmp_path / "t-0") == left


@pytest.mark.parametrize("damaged", [b"", b"0\n1 2 3 x\n0000000000000000\n", b"\xff\n\n", b"1\n"])
def test_a_damaged_file_counts_as_none(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / closed_log.FILE_NAME).write_bytes(damaged)

    assert closed_log.read(tmp_path) is None


def test_all_logs_are_left_in_order_at_a_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(tmp_path, 2) as (first, second):
        first.append(first.lead(1))
        first.partitions.close()

        assert (second.lead(2).log_end_offset, recovered(caplog)) == (1, False)


def test_deleted_records_stay_deleted_for_the_next_broker(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        first.append(log)
        first.append(log)
        first.partitions.note_log_starts([(log, 1)])
        first.partitions.write_log_starts()
        first.crash()

        assert second.lead(2).log_start_offset == 1


def test_a_new_topic_has_no_records_of_an_older_one_of_another_broker(tmp_path: Path) -> None:
    with workers(tmp_path, 2) as (first, second):
        log = first.lead(1)
        first.append(log)
        first.partitions.note_log_starts([(log, 1)])
        first.partitions.write_log_starts()
        first.crash()

        new = second.lead(1, random_id())

        assert (new.log_start_offset, new.log_end_offset) == (0, 0)
        assert len(list(tmp_path.glob("*-stray"))) == 1
