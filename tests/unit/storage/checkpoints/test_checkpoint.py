"""Kafka's small text files: written as Kafka writes them, and checked when they are read."""

import errno
import logging
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint


def test_offsets_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    file = tmp_path / text_files.RECOVERY_POINTS

    checkpoint.write_offsets(file, {("orders", 10): 7, ("orders", 2): 5, ("logs", 0): 0})

    assert file.read_bytes() == b"0\n3\nlogs 0 0\norders 2 5\norders 10 7\n"
    assert text_files.read_offsets(file) == {("logs", 0): 0, ("orders", 2): 5, ("orders", 10): 7}


def test_a_file_without_offsets_is_valid(tmp_path: Path) -> None:
    file = tmp_path / text_files.LOG_START_OFFSETS

    checkpoint.write_offsets(file, {})

    assert file.read_bytes() == b"0\n0\n"
    assert text_files.read_offsets(file) == {}


def test_leader_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    written = checkpoint.leader_epochs([(0, 0), (3, 0), (4, 120)])
    (tmp_path / "leader-epoch-checkpoint").write_text(written)

    assert written == "0\n3\n0 0\n3 0\n4 120\n"
    assert text_files.read_leader_epochs(tmp_path) == [(0, 0), (3, 0), (4, 120)]


def test_partition_metadata_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    checkpoint.write_partition_metadata(tmp_path, bytes(range(16)))

    file = tmp_path / "partition.metadata"
    assert file.read_bytes() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert text_files.read_partition_metadata(tmp_path) == bytes(range(16))


def test_properties_written_by_java_are_read(tmp_path: Path) -> None:
    file = tmp_path / text_files.META_PROPERTIES
    file.write_text(
        "#\n#Fri Nov 20 10:00:00 UTC 2026\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
        "directory.id=ab=cd\nversion=1\nnode.id=1\n"
    )

    assert text_files.read_properties(file) == {
        "cluster.id": "MkU3OEVBNTcwNTJENDM2Qg",
        "directory.id": "ab=cd",
        "version": "1",
        "node.id": "1",
    }


def test_missing_files_count_as_empty(tmp_path: Path) -> None:
    assert text_files.read_offsets(tmp_path / text_files.RECOVERY_POINTS) == {}
    assert text_files.read_leader_epochs(tmp_path) is None
    assert text_files.read_partition_metadata(tmp_path) is None
    assert text_files.read_properties(tmp_path / text_files.META_PROPERTIES) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0",
        b"1\n0\n",
        b"0\n2\norders 0 5\n",
        b"0\n1\norders 0 5\norders 1 6\n",
        b"0\nx\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 -5\n",
        b"0\n1\norders 0 5 6\n",
        b"0\n1\norders zero 5\n",
        b"\xff\xfe\x00",
        b"\x00" * 40,
    ],
)
def test_damaged_offsets_count_as_missing_and_are_logged(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / text_files.RECOVERY_POINTS
    file.write_bytes(content)

    with caplog.at_level(logging.WARNING):
        offsets = text_files.read_offsets(file)

    assert offsets == {}
    assert str(file) in caplog.text


@pytest.mark.parametrize(
    "content", [b"0\n2\n3 0\n3 5\n", b"0\n2\n3 5\n4 4\n", b"0\n2\n3 5\n2 6\n", b"0\n1\n-1 0\n"]
)
def test_decreasing_epochs_or_offsets_count_as_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / text_files.LEADER_EPOCHS).write_bytes(content)

    assert text_files.read_leader_epochs(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0",
        b"version: 0\ntopic_id: short",
        b"version 0",
    ],
)
def test_damaged_partition_metadata_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / text_files.PARTITION_METADATA).write_bytes(content)

    assert text_files.read_partition_metadata(tmp_path) is None


def test_every_truncation_of_an_offsets_file_counts_as_missing_or_is_whole(tmp_path: Path) -> None:
    file = tmp_path / text_files.RECOVERY_POINTS
    checkpoint.write_offsets(file, {("orders", 0): 5, ("orders", 1): 6})
    content = file.read_bytes()

    for length in range(len(content) - 1):  # without its last newline it is still whole
        file.write_bytes(content[:length])

        assert text_files.read_offsets(file) == {}


def test_the_clean_shutdown_marker_is_seen_once(tmp_path: Path) -> None:
    checkpoint.write_clean_shutdown(tmp_path)

    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert checkpoint.take_clean_shutdown(tmp_path)
    assert not checkpoint.take_clean_shutdown(tmp_path)


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_offsets(file, {("t", 0): 1})
    file_ops.start_recording()
    file_ops.fail("sync", file.name, errno.EIO)
    try:
        with pytest.raises(StorageError, match=file.name):
            checkpoint.write_offsets(file, {("t", 0): 2})
    finally:
        file_ops.stop_recording()

    assert text_files.read_offsets(file) == {("t", 0): 1}


def test_a_read_error_is_not_taken_for_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(checkpoint.leader_epochs([(0, 0)]))
    file_ops.start_recording()
    file_ops.fail("open", "leader-epoch-checkpoint", errno.EIO)
    try:
        with pytest.raises(StorageError):
            text_files.read_leader_epochs(tmp_path)
    finally:
        file_ops.stop_recording()
