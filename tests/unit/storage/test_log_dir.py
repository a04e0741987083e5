"""The data directory: one broker at a time, a permanent identity."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.address import Address
from broker.model.errors import DataDirError, StorageError
from broker.model.identifiers import id_from_text
from broker.storage.log_dir import LogDir, disk_space
from tests.support.segment_files import open_files


def test_a_new_directory_gets_a_permanent_identity(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    first = LogDir(path, node_id=1)
    first.close()

    again = LogDir(path, node_id=1)

    assert (again.cluster_id, again.directory_id) == (first.cluster_id, first.directory_id)
    assert len(id_from_text(again.cluster_id)) == 16
    assert (path / "meta.properties").read_text() == (
        f"cluster.id={again.cluster_id}\ndirectory.id={again.directory_id}\nnode.id=1\nversion=1\n"
    )
    again.close()


def test_a_new_directory_is_accessible_to_the_owner_alone(tmp_path: Path) -> None:
    LogDir(tmp_path / "data", node_id=1).close()

    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_log_directory_of_kafka_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a\n")
    (tmp_path / "orders-0").mkdir()
    before = sorted(tmp_path.iterdir())

    with pytest.raises(DataDirError, match="is a log directory of Apache Kafka"):
        LogDir(tmp_path, node_id=1)

    assert sorted(tmp_path.iterdir()) == before


def test_a_second_start_names_the_holder_of_the_directory(tmp_path: Path) -> None:
    held = LogDir(tmp_path, node_id=1)
    held.write_holder([Address("127.0.0.1", 9092), Address("::1", 9092)])

    with pytest.raises(DataDirError) as refused:
        LogDir(tmp_path, node_id=1)

    assert f"pid {os.getpid()} on " in str(refused.value)
    assert "127.0.0.1:9092, [::1]:9092" in str(refused.value)
    assert "--data-dir" in str(refused.value)
    held.close()


def test_a_refused_start_does_not_take_the_holders_lock(tmp_path: Path) -> None:
    held = LogDir(tmp_path, node_id=1)
    for _ in range(2):
        with pytest.raises(DataDirError, match="in use"):
            LogDir(tmp_path, node_id=1)
    held.close()

    LogDir(tmp_path, node_id=1).close()


@pytest.mark.parametrize("error", [errno.EWOULDBLOCK, errno.ENOLCK])
def test_a_start_without_the_lock_is_refused_and_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(DataDirError, match="start with another --data-dir"):
        LogDir(tmp_path, node_id=1)

    assert open_files(tmp_path) == []


def test_a_killed_broker_leaves_the_directory_unlocked(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, pathlib\n"
        "from broker.storage.log_dir import LogDir\n"
        "held = LogDir(pathlib.Path(sys.argv[1]), 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert (tmp_path / "broker.lock").read_text().startswith("pid ")

    LogDir(tmp_path, node_id=1).close()


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    LogDir(tmp_path, node_id=1).close()

    with pytest.raises(
        DataDirError, match=r"belongs to node 1, this broker is node 2: set node\.id"
    ):
        LogDir(tmp_path, node_id=2)

    LogDir(tmp_path, node_id=1).close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version=0\nnode.id=1\ncluster.id=a\ndirectory.id=b\n", "version 0"),
        ("version=1\nnode.id=1\ndirectory.id=b\n", r"no cluster\.id"),
    ],
)
def test_an_identity_of_another_kind_of_broker_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "meta.properties").write_text(content)

    with pytest.raises(DataDirError, match=message):
        LogDir(tmp_path, node_id=1)


def test_a_directory_without_partitions_joins_any_cluster(tmp_path: Path) -> None:
    directory = LogDir(tmp_path / "data", 1)
    before = directory.directory_id
    directory.join_cluster("another-cluster-of-22c")
    directory.close()

    again = LogDir(tmp_path / "data", 1)
    again.close()

    assert (again.cluster_id, again.directory_id) == ("another-cluster-of-22c", before)


def test_a_directory_with_partitions_stays_in_its_cluster(tmp_path: Path) -> None:
    directory = LogDir(tmp_path / "data", 1)
    (directory.path / "a-0").mkdir()
    (directory.path / "a-0" / "partition.metadata").write_text("version: 0\n")

    with pytest.raises(DataDirError, match=r"belongs to cluster .* name the store"):
        directory.join_cluster("another-cluster-of-22c")
    directory.join_cluster(directory.cluster_id)
    directory.close()


def test_a_damaged_identity_file_is_rewritten(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\x00" * 64)

    directory = LogDir(tmp_path, node_id=1)

    assert len(id_from_text(directory.cluster_id)) == 16
    directory.close()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    for path in (tmp_path / "data", tmp_path / "data" / "deeper"):
        with pytest.raises(DataDirError, match="data is a file"):
            LogDir(path, node_id=1)


@pytest.mark.parametrize("path", ["/proc/nowhere/data", "/proc/data"])
def test_a_directory_that_cannot_be_created_is_refused_with_the_remedy(path: str) -> None:
    with pytest.raises(DataDirError, match="make it writable"):
        LogDir(Path(path), node_id=1)


def test_a_disk_failure_while_the_identity_is_written_releases_the_lock(
    tmp_path: Path,
) -> None:
    file_ops.start_recording()
    file_ops.fail("sync", "meta.properties", errno.EIO)
    try:
        with pytest.raises(StorageError, match=r"meta\.properties"):
            LogDir(tmp_path, node_id=1)
    finally:
        file_ops.stop_recording()

    LogDir(tmp_path, node_id=1).close()


def test_the_space_of_the_disk_is_returned(tmp_path: Path) -> None:
    space = disk_space(tmp_path)

    assert 0 < space.usable_bytes <= space.total_bytes


def test_a_disk_whose_space_cannot_be_read_counts_as_failed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        disk_space(tmp_path / "gone")
