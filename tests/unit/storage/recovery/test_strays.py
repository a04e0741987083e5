"""Folders that a start finds and that are of no partition of this broker."""

import shutil

import pytest

from broker._native.kernel import file_ops
from broker.segments import text_files
from broker.storage.files.deletion import deleted_folder, remove_folder
from tests.crash_states import choices
from tests.crash_states.disk import Disk
from tests.unit.storage.broker_run import BrokerRun


def test_a_folder_of_no_known_topic_is_set_aside_and_kept(broker: BrokerRun) -> None:
    shutil.copytree(broker.open()[0].folder, broker.path / "lost-7")

    broker.partitions.rename_strays()

    (aside,) = broker.path.glob("lost-7.*-stray")
    assert (aside / text_files.PARTITION_METADATA).exists()


def test_the_folder_of_a_partition_that_was_moved_to_other_brokers_is_removed(
    broker: BrokerRun,
) -> None:
    log = broker.open()[0]
    moved = broker.path / "moved-7"
    shutil.copytree(log.folder, moved)
    shutil.copytree(log.folder, broker.path / "kept-8")

    doomed = broker.partitions.rename_strays(lambda *_: log.topic_id, lambda _, number: number == 8)

    assert [each.name.partition(".")[0] for each in doomed] == ["moved-7"]
    assert doomed[0].exists()
    assert not moved.exists()
    assert (broker.path / "kept-8").exists()


@pytest.mark.parametrize("before", ["nothing", "killed", "killed and moved again"])
def test_a_folder_whose_removal_a_power_cut_interrupts_is_whole_or_has_its_new_name(
    broker: BrokerRun, before: str
) -> None:
    """If the partition has come back by then, a part of its files looks like lost records."""
    log = broker.open()[0]
    moved = broker.path / "moved-7"
    shutil.copytree(log.folder, moved)
    files = {f"moved-7/{each.name}": each.read_bytes() for each in moved.iterdir()}
    disk = Disk(broker.path, {"moved-7": None, **files})
    file_ops.start_recording()
    if before != "nothing":
        file_ops.rename(str(moved), str(deleted_folder(moved, log.topic_id)))
    if before == "killed and moved again":
        file_ops.make_folder(str(moved))
        for name, content in files.items():
            file_ops.write_file(str(broker.path / name), content)
        file_ops.sync_folder(str(moved))

    for operation in file_ops.take_recorded():
        disk.apply(operation)

    for each in broker.partitions.rename_strays(lambda *_: log.topic_id, lambda *_: False):
        remove_folder(each)

    operations = file_ops.take_recorded()
    file_ops.stop_recording()
    for operation in operations:
        if operation[1] == str(broker.path) or "/moved-7" in operation[1]:
            disk.apply(operation)
            for state in choices.each(disk.after_crash, 1_000):
                found = {name for name in state if name.startswith("moved-7/")}
                assert "moved-7" not in state or found == files.keys()


def test_a_delete_interrupted_by_a_crash_is_finished(broker: BrokerRun) -> None:
    (broker.path / "gone-0.xyz-delete").mkdir()

    assert broker.partitions.rename_strays() == [broker.path / "gone-0.xyz-delete"]
