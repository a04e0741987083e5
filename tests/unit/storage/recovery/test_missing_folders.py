"""Folders of known partitions that a crash has prevented: a start makes them."""

import errno
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.storage.recovery import syncing
from tests.unit.storage.broker_run import CONFIG, TOPIC_ID, BrokerRun


def test_missing_folders_are_made_with_one_sync_of_the_data_directory(broker: BrokerRun) -> None:
    names = [f"topic-{number}" for number in range(3)]
    file_ops.start_recording()

    broker.open(count=3)

    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    file_ops.stop_recording()
    synced = [name for op, name in done if op == "sync_folder"]
    assert synced == [*names, broker.path.name]
    made = max(done.index(("make_folder", name)) for name in names)
    assert made < done.index(("sync_folder", broker.path.name))


def test_many_missing_folders_share_one_sync(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "LOGS_SYNCED_ONE_BY_ONE_MAX", 2)
    file_ops.start_recording()

    broker.open(count=3)

    syncs = [op for op, *_ in file_ops.recorded() if op.startswith("sync")]
    file_ops.stop_recording()
    assert syncs == ["sync_filesystem"]


def test_no_log_is_used_whose_folder_may_be_gone_after_a_crash(broker: BrokerRun) -> None:
    (first,) = broker.make()
    broker.stop()
    again = BrokerRun(broker.path)
    logs = again.partitions.announce_topic("topic", TOPIC_ID, range(3), CONFIG)
    assert [again.partitions.load(log) for log in logs] == [None] * 3
    file_ops.start_recording()
    file_ops.fail("sync_folder", f"*/{broker.path.name}", errno.EIO)

    failed = again.partitions.settle(logs)

    file_ops.stop_recording()
    assert list(failed) == logs[1:]
    assert first.folder == logs[0].folder
    again.kill()
