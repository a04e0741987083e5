"""What a start knows of a replica: how far it was replicated, and whether it has lost something."""

import select
from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model.config import load
from broker.model.log_results import LogState
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.segments.names import LOG, file_name
from broker.storage.recovery.epochs import ElectedEpochs
from broker.storage.recovery.partitions import Partitions
from tests.support.cut_log import PRODUCER_EPOCH, marker
from tests.support.native_log import NOW_MS, TOPIC_ID, WAIT_MS, appended, placed, records

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
ID, OTHER = 1, 2


class Member:
    """One run of a broker of a cluster."""

    def __init__(self, path: Path, durability: str = "group-commit") -> None:
        self.turn = Turn(COMMIT)
        self.turn.now_ms = self.turn.steady_ms = NOW_MS
        self.losses = 0
        self.partitions = Partitions(
            path, ElectedEpochs(), self.turn, 86_400_000, when_lost=self._lose
        )
        self.config = TopicConfig({"polylog.durability": durability}, load())

    def _lose(self) -> None:
        self.losses += 1

    def make(self) -> PartitionLog:
        """Make a log, led by this broker in epoch 1 with a follower that has nothing yet."""
        (log,) = self.partitions.open_topic("topic", TOPIC_ID, [0], self.config)
        log.lead(1, ID, [ID, OTHER], [ID, OTHER])
        return log

    def open(self) -> PartitionLog:
        """Open the log as a start does."""
        (log,) = self.partitions.announce_topic("topic", TOPIC_ID, [0], self.config)
        assert self.partitions.load(log) is None
        assert self.partitions.settle([log]) == {}
        log.end_loading()
        return log

    def append(self, log: PartitionLog, count: int) -> None:
        """Append batches of one record; they are on this broker's disk."""
        for _ in range(count):
            appended(log, records())
        self.turn.end()
        poll = select.poll()
        poll.register(COMMIT.event_fd, select.POLLIN)
        while log.is_group_commit and log.durable_end < log.log_end_offset:
            assert poll.poll(WAIT_MS)
            self.turn.poll_synced()

    def checkpoint(self) -> None:
        """Write the checkpoints."""
        points = self.partitions.plan_checkpoint()
        assert self.partitions.prepare_checkpoint() == {}
        self.partitions.write_checkpoint(points)


def grown(path: Path, durability: str = "group-commit") -> tuple[Member, PartitionLog]:
    """Return a led log of five records, of which the only other replica in sync had three."""
    member = Member(path, durability)
    log = member.make()
    member.append(log, 3)
    log.set_isr([ID], 1)
    member.append(log, 0)
    log.set_isr([ID, OTHER], 2)
    member.append(log, 2)
    assert (log.high_watermark, log.log_end_offset) == (3, 5)
    return member, log


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_the_high_watermark_of_a_replica_is_restored(
    tmp_path: Path, durability: str, *, is_clean: bool
) -> None:
    member, _ = grown(tmp_path, durability)
    if is_clean:
        member.partitions.close()
    else:
        member.checkpoint()

    again = Member(tmp_path, durability).open()

    assert (again.high_watermark, again.log_end_offset) == (3, 5)
    assert (tmp_path / text_files.HIGH_WATERMARKS).read_text() == "0\n1\ntopic 0 3\n"


def test_a_released_replica_keeps_its_high_watermark(tmp_path: Path) -> None:
    member, log = grown(tmp_path)
    log.follow(2)
    log.begin_loading()
    member.partitions.release(log)
    log.release()

    again = member.open()

    assert (again.high_watermark, again.log_end_offset) == (3, 5)


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_turns_and_syncs_make_nothing_readable_before_a_replica_has_its_role(
    tmp_path: Path, durability: str
) -> None:
    member, log = grown(tmp_path, durability)
    log.configure(segment_bytes_max=1)
    member.append(log, 3)
    member.checkpoint()
    again = Member(tmp_path, durability)
    log = again.open()

    synced: list[bool] = []
    log.when_synced(log.log_end_offset, synced.append)
    again.append(log, 0)
    again.turn.end()
    while not synced:
        again.turn.poll_synced()
    again.checkpoint()

    assert (log.high_watermark, log.log_end_offset) == (3, 8)
    assert Member(tmp_path, durability).open().high_watermark == 3
    log.lead(2, ID, [ID], [ID])
    again.append(log, 0)
    assert log.high_watermark == 8, "nobody else has a replica"


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_a_replica_that_becomes_the_only_one_in_a_turn_with_other_work_is_readable(
    tmp_path: Path, durability: str
) -> None:
    member, _ = grown(tmp_path, durability)
    member.checkpoint()
    again = Member(tmp_path, durability)
    log = again.open()
    for is_group_commit in (durability == "os", durability != "os"):
        log.configure(is_group_commit=is_group_commit)  # has the turn end with a write

    log.lead(2, ID, [ID], [ID])
    again.append(log, 0)

    assert log.high_watermark == 5


def test_a_replica_that_cannot_be_read_in_a_run_keeps_its_high_watermark(tmp_path: Path) -> None:
    member, _ = grown(tmp_path)
    member.checkpoint()
    without = Member(tmp_path)
    (log,) = without.partitions.announce_topic("topic", TOPIC_ID, [0], without.config)
    log.take_offline("its directory is missing")
    log.end_loading()

    without.checkpoint()
    without.partitions.close()

    again = Member(tmp_path).open()
    assert (again.high_watermark, again.log_end_offset) == (3, 5)


def test_without_a_checkpoint_nothing_is_known_to_be_replicated(tmp_path: Path) -> None:
    grown(tmp_path)

    again = Member(tmp_path).open()

    assert (again.high_watermark, again.log_end_offset) == (0, 5)


def test_a_log_without_other_replicas_is_readable_up_to_its_end(tmp_path: Path) -> None:
    grown(tmp_path)
    again = Member(tmp_path).open()

    again.lead(2, ID, [ID], [ID])

    assert again.high_watermark == 5


def test_what_is_lost_below_the_high_watermark_is_told(tmp_path: Path) -> None:
    member, log = grown(tmp_path, "os")
    member.checkpoint()
    file = Path(log.folder) / file_name(0, LOG)
    file.write_bytes(file.read_bytes()[: len(records()) * 2])
    again = Member(tmp_path, "os")

    found = again.open()

    assert again.losses == 1
    assert found.high_watermark == found.log_end_offset == 2


def test_synced_records_that_are_lost_are_told(tmp_path: Path) -> None:
    member, log = grown(tmp_path)
    member.checkpoint()
    file = Path(log.folder) / file_name(0, LOG)
    file.write_bytes(file.read_bytes()[: len(records()) * 4])
    again = Member(tmp_path)

    again.open()

    assert again.losses


def test_damage_that_a_start_finds_is_told(tmp_path: Path) -> None:
    member, log = grown(tmp_path)
    member.checkpoint()
    file = Path(log.folder) / file_name(0, LOG)
    data = bytearray(file.read_bytes())
    data[len(records()) + 70] ^= 1
    file.write_bytes(data)
    first = Member(tmp_path)

    found = first.open()

    assert first.losses == 1
    assert found.damaged_ranges == [(1, 2)]
    assert found.log_end_offset == 5


def test_a_replica_that_has_lost_nothing_is_not_told(tmp_path: Path) -> None:
    member, _ = grown(tmp_path)
    member.checkpoint()
    again = Member(tmp_path)

    again.open()

    assert again.losses == 0


def test_a_copy_of_a_compacted_log_is_recovered_with_its_gaps(tmp_path: Path) -> None:
    member = Member(tmp_path)
    (log,) = member.partitions.open_topic("topic", TOPIC_ID, [0], member.config)
    log.follow(1)
    stored = b"".join(placed(records(), offset, 1) for offset in (2, 3, 9))
    assert log.copy(stored, high_watermark=10) is LogState.OK
    member.append(log, 0)

    again = Member(tmp_path)
    log = again.open()

    assert (log.log_end_offset, again.losses) == (10, 0)
    log.follow(2)
    assert log.copy(b"", high_watermark=10) is LogState.OK
    assert log.read(0, 1 << 20) == stored


def with_transaction(path: Path, *, is_commit: bool = True) -> tuple[Member, PartitionLog]:
    """Return a broker's log of a transaction at 0, with its marker at the high watermark, 2."""
    member = Member(path)
    log = member.make()
    log.admit_transaction(5, PRODUCER_EPOCH)
    options = {"producer_id": 5, "producer_epoch": PRODUCER_EPOCH}
    appended(log, records(base_sequence=0, is_transactional=True, **options))
    member.append(log, 1)
    log.set_isr([ID], 1)
    member.append(log, 0)
    log.set_isr([ID, OTHER], 2)
    log.append_internal(marker(5, int(is_commit)))
    member.append(log, 1)
    assert (log.high_watermark, log.last_stable_offset, log.log_end_offset) == (2, 0, 4)
    return member, log


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("stop", ["clean", "kill", "kill without a checkpoint"])
def test_a_transaction_that_ended_above_the_high_watermark_is_undecided(
    tmp_path: Path, stop: str, *, is_commit: bool
) -> None:
    member, _ = with_transaction(tmp_path, is_commit=is_commit)
    if stop == "clean":
        member.partitions.close()
    elif stop == "kill":
        member.checkpoint()

    log = Member(tmp_path).open()

    log.follow(2)
    assert log.copy(b"", high_watermark=2) is LogState.OK
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    assert log.copy(b"", high_watermark=3) is LogState.OK
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)
    assert log.open_transactions == {}
    assert log.aborted_transactions(0, 3) == ([] if is_commit else [(5, 0, 2)])


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_transaction_that_ended_below_the_high_watermark_is_decided(
    tmp_path: Path, *, is_clean: bool
) -> None:
    member, log = with_transaction(tmp_path)
    log.set_isr([ID], 1)
    if is_clean:
        member.partitions.close()
    else:
        member.checkpoint()

    log = Member(tmp_path).open()

    assert (log.high_watermark, log.last_stable_offset) == (4, 4)


def test_a_log_that_is_led_alone_has_decided_what_has_ended(tmp_path: Path) -> None:
    member, _ = with_transaction(tmp_path)
    member.checkpoint()
    log = Member(tmp_path).open()

    log.lead(2, ID, [ID], [ID])

    assert (log.high_watermark, log.last_stable_offset) == (4, 4)
