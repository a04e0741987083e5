"""What the opening of a log takes from the files of the run before, and what it makes durable."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from tests.support.batches import batch_of
from tests.unit.storage.broker_run import BATCH, BrokerRun


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerRun]:
    yield (first := BrokerRun(tmp_path))
    first.store.close()
    first.commit.stop()


def synced_folders(broker: BrokerRun) -> list[str]:
    """The folders that the opening of a topic syncs."""
    file_ops.start_recording()
    broker.open()
    synced = [Path(path).name for op, path, *_ in file_ops.recorded() if op == "sync_folder"]
    file_ops.stop_recording()
    return synced


def test_a_clean_start_syncs_no_names(broker: BrokerRun) -> None:
    broker.open()[0].append(BATCH)
    broker.stop()

    again = BrokerRun(broker.path)

    assert synced_folders(again) == []
    again.kill()


def test_an_unclean_start_syncs_no_names_of_a_log_whose_last_segment_has_synced_records(
    broker: BrokerRun,
) -> None:
    broker.open()[0].append(BATCH)
    broker.stop()
    second = BrokerRun(broker.path)
    second.open()[0].append(BATCH)
    second.kill()

    again = BrokerRun(broker.path)

    assert synced_folders(again) == []
    again.kill()


def batch_by(producer_id: int, *, sequence: int = 0) -> bytes:
    return batch_of(
        [(b"key", b"value", ())],
        1_700_000_000_000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )


def test_a_recovery_without_a_snapshot_knows_the_producers_of_the_first_record(
    broker: BrokerRun,
) -> None:
    batch = batch_by(7)
    broker.open()[0].append(batch)
    broker.kill()

    again = BrokerRun(broker.path)
    (log,) = again.open()
    log.append(batch)

    assert log.log_end_offset == 1, "the duplicate is recognised"
    again.kill()


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_the_producers_of_what_is_left_are_known_when_a_log_has_lost_its_synced_end(
    broker: BrokerRun, kept: int
) -> None:
    batches = [batch_by(7), batch_by(8), batch_by(7, sequence=1), batch_by(9)]
    (log,) = broker.open()
    for each in batches[:2]:
        log.append(each)
    broker.stop()
    second = BrokerRun(broker.path)
    (log,) = second.open()
    for each in batches[2:]:
        log.append(each)
    second.stop()  # there are snapshots at 2 and 4
    third = BrokerRun(broker.path)
    third.open()[0].append(BATCH)
    third.kill()
    (file,) = Path(log.folder).glob("*.log")
    whole = file.read_bytes()
    end = sum(map(len, batches[:kept]))
    file.write_bytes(whole[:end] + bytes(len(whole) - end))

    again = BrokerRun(broker.path)
    (log,) = again.open()
    assert log.log_end_offset == kept
    for each in batches[:kept]:
        log.append(each)

    assert log.log_end_offset == kept, "the duplicates are recognised"
    assert {producer for producer, _, _ in log.producer_ends} == ({7, 8} if kept > 1 else {7})
    names = [file.name for file in Path(log.folder).glob("*.snapshot")]
    assert all(int(name[:20]) <= kept for name in names), "none is of other batches later"
    again.kill()
