"""The other directories of log.dirs: opened, known again, and missing."""

import errno
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import DataDirError
from broker.model.identifiers import random_id
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.log_dir import LogDir
from broker.storage.more_directories import KNOWN, known_directories, open_more


@pytest.fixture
def home(tmp_path: Path) -> Iterator[LogDir]:
    """An open data directory."""
    opened = LogDir(tmp_path / "home", 1)
    yield opened
    opened.close()


def closed_and_opened(home: LogDir, *paths: Path) -> LogDir:
    """Start again with these directories."""
    home.close()
    again = LogDir(home.path, 1)
    open_more(again, paths)
    return again


def test_a_new_directory_belongs_to_the_broker_and_its_cluster(
    home: LogDir, tmp_path: Path
) -> None:
    open_more(home, [tmp_path / "more"])

    properties = text_files.read_properties(tmp_path / "more" / "meta.properties")
    assert properties is not None
    assert (properties["cluster.id"], properties["node.id"]) == (home.cluster_id, "1")
    assert properties["directory.id"] != home.directory_id
    assert list(home.directories) == [home.path, tmp_path / "more"]
    assert (home.path / KNOWN).read_text() == (
        f"{properties['directory.id']}={tmp_path / 'more'}\n"
    )


def test_a_directory_is_opened_by_one_broker_at_a_time(home: LogDir, tmp_path: Path) -> None:
    open_more(home, [tmp_path / "more"])
    other = LogDir(tmp_path / "other", 1)

    with pytest.raises(DataDirError, match="is in use by a broker"):
        open_more(other, [tmp_path / "more"])

    home.close()
    LogDir(tmp_path / "more", 1).close()  # it is free again
    other.close()


def test_a_directory_of_another_cluster_is_refused_and_freed(home: LogDir, tmp_path: Path) -> None:
    LogDir(tmp_path / "foreign", 1).close()
    (tmp_path / "foreign" / "t-0").mkdir()
    checkpoint.write_partition_metadata(tmp_path / "foreign" / "t-0", random_id())

    with pytest.raises(DataDirError, match="belongs to cluster"):
        open_more(home, [tmp_path / "more", tmp_path / "foreign"])

    LogDir(tmp_path / "foreign", 1).close()
    LogDir(tmp_path / "more", 1).close()


def test_a_directory_that_cannot_be_opened_is_missing_and_logged(
    home: LogDir, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    with caplog.at_level(logging.ERROR):
        open_more(home, [tmp_path / "more", tmp_path / "file"])

    assert list(home.directories) == [home.path, tmp_path / "more"]
    assert list(home.directories.missing) == [tmp_path / "file"]
    assert "directory is missing" in caplog.text


def test_a_disk_that_is_not_mounted_is_missing_and_nothing_is_written_in_its_place(
    home: LogDir, tmp_path: Path
) -> None:
    open_more(home, [tmp_path / "more"])
    (tmp_path / "more").rename(tmp_path / "elsewhere")
    (tmp_path / "more").mkdir()

    again = closed_and_opened(home, tmp_path / "more")

    assert list(again.directories) == [home.path]
    assert "is the disk mounted?" in again.directories.missing[tmp_path / "more"]
    assert list((tmp_path / "more").iterdir()) == []
    (tmp_path / "more").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "more")
    mounted = closed_and_opened(again, tmp_path / "more")
    assert list(mounted.directories) == [home.path, tmp_path / "more"]
    assert mounted.directories.missing == {}
    mounted.close()


def test_another_directory_in_the_place_of_a_known_one_is_not_it(
    home: LogDir, tmp_path: Path
) -> None:
    open_more(home, [tmp_path / "more"])
    (tmp_path / "more").rename(tmp_path / "elsewhere")
    LogDir(tmp_path / "more", 1).close()

    again = closed_and_opened(home, tmp_path / "more")

    assert "it is not the one used before" in again.directories.missing[tmp_path / "more"]
    again.close()


def test_directories_that_have_exchanged_their_places_are_known(
    home: LogDir, tmp_path: Path
) -> None:
    paths = [tmp_path / "more", tmp_path / "most"]
    open_more(home, paths)
    before = known_directories(home)
    (tmp_path / "more").rename(tmp_path / "elsewhere")
    (tmp_path / "most").rename(tmp_path / "more")
    (tmp_path / "elsewhere").rename(tmp_path / "most")

    again = closed_and_opened(home, *paths)

    assert again.directories.missing == {}
    after = known_directories(again)
    assert all(after[key] in paths and after[key] != path for key, path in before.items())
    again.close()


def test_a_known_directory_in_the_place_of_a_missing_one_is_not_used(
    home: LogDir, tmp_path: Path
) -> None:
    paths = [tmp_path / "more", tmp_path / "most"]
    open_more(home, paths)
    before = known_directories(home)
    (tmp_path / "more").rename(tmp_path / "elsewhere")
    (tmp_path / "most").rename(tmp_path / "more")

    again = closed_and_opened(home, tmp_path / "more")

    assert list(again.directories.missing) == [tmp_path / "most", tmp_path / "more"]
    assert known_directories(again) == dict.fromkeys(before)
    LogDir(tmp_path / "more", 1).close()
    again.close()


def test_a_directory_with_another_path_is_known(home: LogDir, tmp_path: Path) -> None:
    open_more(home, [tmp_path / "more"])
    [directory_id] = known_directories(home)
    (tmp_path / "more").rename(tmp_path / "elsewhere")

    again = closed_and_opened(home, tmp_path / "elsewhere")

    assert again.directories.missing == {}
    assert known_directories(again) == {directory_id: tmp_path / "elsewhere"}
    again.close()


@pytest.mark.parametrize("copied", ["home", "more"])
def test_a_copy_of_a_directory_is_refused(home: LogDir, tmp_path: Path, copied: str) -> None:
    open_more(home, [tmp_path / "more"])
    home.close()
    shutil.copytree(tmp_path / copied, tmp_path / "copy")

    again = LogDir(home.path, 1)
    with pytest.raises(DataDirError, match=f"{copied} and {tmp_path}/copy have the same"):
        open_more(again, [tmp_path / "more", tmp_path / "copy"])
    again.close()


def test_a_directory_that_cannot_join_the_cluster_of_the_first_one_is_missing(
    home: LogDir, tmp_path: Path
) -> None:
    LogDir(tmp_path / "more", 1).close()
    file_ops.start_recording()
    file_ops.fail("write", f"{tmp_path}/more/meta", errno.EIO)

    open_more(home, [tmp_path / "more"])

    file_ops.stop_recording()
    assert list(home.directories.missing) == [tmp_path / "more"]
    LogDir(tmp_path / "more", 1).close()


def test_a_known_directory_that_is_not_named_any_more_is_missing(
    home: LogDir, tmp_path: Path
) -> None:
    open_more(home, [tmp_path / "more"])

    again = closed_and_opened(home)

    assert again.directories.missing == {tmp_path / "more": "log.dirs does not name it any more"}
    again.close()


def test_workers_do_not_leave_partitions_behind(home: LogDir, tmp_path: Path) -> None:
    open_more(home, None)
    open_more(home, [tmp_path / "more"])

    with pytest.raises(DataDirError, match=f"has partitions in {tmp_path}/more, which workers"):
        open_more(home, None)


def test_without_more_directories_no_file_is_written(home: LogDir) -> None:
    open_more(home, [])

    assert not (home.path / KNOWN).exists()
    assert list(home.directories) == [home.path]


def test_all_directories_join_the_cluster_of_the_store(home: LogDir, tmp_path: Path) -> None:
    open_more(home, [tmp_path / "more"], is_standalone=False)

    home.join_cluster("the cluster")

    for path in home.directories:
        properties = text_files.read_properties(path / "meta.properties")
        assert properties is not None
        assert properties["cluster.id"] == "the cluster"


def test_a_directory_is_kept_when_the_first_one_is_new(home: LogDir, tmp_path: Path) -> None:
    open_more(home, [tmp_path / "more"], is_standalone=False)
    home.join_cluster("the cluster")
    (tmp_path / "more" / "t-0").mkdir()
    checkpoint.write_partition_metadata(tmp_path / "more" / "t-0", random_id())
    home.close()

    replaced = LogDir(tmp_path / "replaced", 1)
    open_more(replaced, [tmp_path / "more"], is_standalone=False)
    replaced.join_cluster("the cluster")

    assert replaced.cluster_id == "the cluster"
    replaced.close()


def test_a_directory_of_another_cluster_does_not_join(home: LogDir, tmp_path: Path) -> None:
    open_more(home, [tmp_path / "more"], is_standalone=False)
    home.join_cluster("the cluster")
    (tmp_path / "more" / "t-0").mkdir()
    checkpoint.write_partition_metadata(tmp_path / "more" / "t-0", random_id())

    with pytest.raises(DataDirError, match="more belongs to cluster the cluster"):
        home.join_cluster("another")
    with pytest.raises(DataDirError, match="more has partitions"):
        home.check_new("etcd://h:1/p")

    assert home.cluster_id == "the cluster"


def test_known_directories_are_named_by_their_ids(home: LogDir, tmp_path: Path) -> None:
    assert known_directories(home) == {}
    paths = [tmp_path / "more", tmp_path / "lost"]
    open_more(home, paths)
    shutil.rmtree(tmp_path / "lost")

    again = closed_and_opened(home, *paths)

    known = known_directories(again)
    assert len(known) == 2
    properties = text_files.read_properties(tmp_path / "more" / "meta.properties")
    assert properties is not None
    assert known.pop(properties["directory.id"]) == tmp_path / "more"
    assert list(known.values()) == [None]
    again.close()
