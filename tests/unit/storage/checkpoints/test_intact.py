"""Since when a data directory has everything that was acknowledged."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.storage.checkpoints import checkpoint, intact
from broker.storage.checkpoints.intact import Intact


def test_a_new_directory_is_intact_since_nothing(tmp_path: Path) -> None:
    assert intact.read(tmp_path) == 0


def test_the_revision_is_kept(tmp_path: Path) -> None:
    intact.write(tmp_path, 4711)

    assert intact.read(tmp_path) == 4711
    assert (tmp_path / "intact.properties").read_text() == "since=4711\n"


def test_a_reset_forgets_it(tmp_path: Path) -> None:
    intact.write(tmp_path, 4711)

    intact.reset(tmp_path)
    intact.reset(tmp_path)

    assert intact.read(tmp_path) == 0


@pytest.mark.parametrize("text", ["since=\n", "since=-1\n", "until=3\n", "since=3x\n"])
def test_an_invalid_file_counts_as_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / "intact.properties").write_text(text)

    assert intact.read(tmp_path) == 0
    assert "damaged checkpoint" in caplog.text


def test_the_registration_of_a_new_directory_is_written(tmp_path: Path) -> None:
    found = Intact(tmp_path)

    found.registered(12, found.losses)

    assert found.since == intact.read(tmp_path) == 12


def test_a_registration_that_says_what_the_file_says_writes_nothing(tmp_path: Path) -> None:
    intact.write(tmp_path, 12)
    found = Intact(tmp_path)
    (tmp_path / "intact.properties").unlink()

    found.registered(12, found.losses)

    assert not (tmp_path / "intact.properties").exists()


def test_a_registration_that_says_something_later_is_written(tmp_path: Path) -> None:
    intact.write(tmp_path, 12)
    found = Intact(tmp_path)

    found.registered(20, found.losses)

    assert found.since == intact.read(tmp_path) == 20


def test_a_loss_resets_it_and_is_told(tmp_path: Path) -> None:
    intact.write(tmp_path, 12)
    found = Intact(tmp_path)
    told: list[int] = []
    found.when_lost = lambda: told.append(found.losses)

    found.lost()

    assert found.since == intact.read(tmp_path) == 0
    assert told == [1]


def test_a_registration_made_before_a_loss_is_not_written(tmp_path: Path) -> None:
    found = Intact(tmp_path)
    losses = found.losses
    found.lost()

    found.registered(12, losses)

    assert found.since == intact.read(tmp_path) == 0


def test_a_directory_is_older_than_a_store_that_was_imported_since(tmp_path: Path) -> None:
    assert Intact(tmp_path, "import", 5).since == 0
    intact.write(tmp_path, 4711)

    assert Intact(tmp_path, "import", 5).since == 1
    assert Intact(tmp_path, "another", 5).since == 1
    assert Intact(tmp_path, intact.NO_IMPORT, 4711).since == 4711


def test_a_directory_that_is_new_in_an_imported_store_has_a_revision_of_that(
    tmp_path: Path,
) -> None:
    found = Intact(tmp_path, "import", 5)
    found.registered(12, found.losses)

    assert Intact(tmp_path, "import", 20).since == 12
    assert Intact(tmp_path, "another", 20).since == 1


def test_a_revision_that_was_lost_with_the_end_of_its_store_is_unknown(tmp_path: Path) -> None:
    intact.write(tmp_path, 4711)

    assert Intact(tmp_path, revision=4710).since == 0
    assert intact.read(tmp_path) == 4711


# ---- several directories -------------------------------------------------------------------------


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """Another directory than `tmp_path`."""
    (tmp_path / "more").mkdir()
    return tmp_path / "more"


def registered(home: Path, more: Path, revision: int) -> None:
    """Let a new broker with two directories register at a revision."""
    found = Intact(home, others={"b": more})
    found.registered(revision, found.losses)


def text_of(directory: Path) -> str:
    return (directory / "intact.properties").read_text()


def make_partition(directory: Path) -> None:
    (directory / "t-0").mkdir()
    checkpoint.write_partition_metadata(directory / "t-0", b"t" * 16)


def break_disk(path: Path) -> None:
    """Let a directory be neither read nor written."""
    file_ops.start_recording()
    for operation in ("open", "write", "list_folder"):
        file_ops.fail(operation, f"{path}*", errno.EIO, times=1000)


@pytest.fixture
def disks() -> Iterator[None]:
    yield
    file_ops.stop_recording()


def test_the_first_directory_says_since_when_all_are_intact(tmp_path: Path, more: Path) -> None:
    registered(tmp_path, more, 12)

    assert text_of(tmp_path) == "directories=b\nsince=12\n"
    assert text_of(more) == "first=no\n"
    assert Intact(tmp_path, others={"b": more}).since == 12


def test_a_new_directory_has_nothing_to_lose_and_is_listed_at_once(
    tmp_path: Path, more: Path
) -> None:
    intact.write(tmp_path, 12)

    assert Intact(tmp_path, others={"b": more}).since == 12

    assert text_of(tmp_path) == "directories=b\nsince=12\n"
    assert text_of(more) == "first=no\n"


def test_a_new_directory_that_has_partitions_makes_the_broker_begin_anew(
    tmp_path: Path, more: Path
) -> None:
    intact.write(tmp_path, 12)
    make_partition(more)

    assert Intact(tmp_path, others={"b": more}).since == 0


def test_an_emptied_directory_is_not_intact_until_the_next_registration(
    tmp_path: Path, more: Path
) -> None:
    registered(tmp_path, more, 12)
    (more / "intact.properties").unlink()

    found = Intact(tmp_path, others={"b": more})

    assert found.since == 0
    assert Intact(tmp_path, others={"b": more}).since == 0, "a crash before it is registered"
    found.registered(20, found.losses)
    assert found.since == Intact(tmp_path, others={"b": more}).since == 20


def test_a_broker_whose_first_directory_was_emptied_is_not_intact(
    tmp_path: Path, more: Path
) -> None:
    registered(tmp_path, more, 12)
    (tmp_path / "intact.properties").unlink()

    found = Intact(tmp_path, others={"b": more})

    assert found.since == 0
    found.registered(20, found.losses)
    assert Intact(tmp_path, others={"b": more}).since == 20


def test_a_directory_that_is_not_known_any_more_has_lost_its_partitions(
    tmp_path: Path, more: Path
) -> None:
    registered(tmp_path, more, 12)

    found = Intact(tmp_path)

    assert found.since == 0
    again = Intact(tmp_path, others={"b": more})
    assert again.since == 0, "after a crash: its partitions may have been made anew"
    found.registered(20, found.losses)
    assert Intact(tmp_path).since == 20
    assert text_of(tmp_path) == "since=20\n"


def test_a_directory_that_is_named_first_has_no_revision(
    tmp_path: Path, more: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registered(tmp_path, more, 12)

    found = Intact(more, others={"a": tmp_path})

    assert found.since == 0
    assert not caplog.text
    found.registered(20, found.losses)
    assert Intact(more, others={"a": tmp_path}).since == 20
    assert text_of(more) == "directories=a\nsince=20\n"
    assert text_of(tmp_path) == "first=no\n"


def test_a_directory_that_is_missing_loses_nothing(tmp_path: Path, more: Path) -> None:
    registered(tmp_path, more, 12)

    assert Intact(tmp_path, others={"b": None}).since == 12

    assert Intact(tmp_path, others={"b": more}).since == 12
    assert Intact(tmp_path).since == 0, "it is still listed"


def test_a_loss_while_a_directory_is_missing_keeps_it_listed(tmp_path: Path, more: Path) -> None:
    registered(tmp_path, more, 12)
    found = Intact(tmp_path, others={"b": None})
    found.lost()

    found.registered(20, found.losses)

    assert text_of(tmp_path) == "directories=b\nsince=20\n"
    assert Intact(tmp_path, others={"b": more}).since == 20


def test_a_loss_in_any_directory_is_one_of_the_broker(tmp_path: Path, more: Path) -> None:
    registered(tmp_path, more, 12)
    found = Intact(tmp_path, others={"b": more})

    found.lost()

    assert found.since == Intact(tmp_path, others={"b": more}).since == 0


def test_a_registration_that_cannot_be_written_is_written_again(
    tmp_path: Path, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Intact(tmp_path, others={"b": more})
    write = intact.write

    def fails(*_: Any) -> None:
        raise StorageError("no more space")

    monkeypatch.setattr(intact, "write", fails)
    with pytest.raises(StorageError):
        found.registered(12, found.losses)
    assert found.since == 0
    monkeypatch.setattr(intact, "write", write)

    found.registered(13, found.losses)

    assert found.since == Intact(tmp_path, others={"b": more}).since == 13


@pytest.mark.usefixtures("disks")
def test_another_directory_that_fails_does_not_keep_the_broker_from_being_intact(
    tmp_path: Path, more: Path
) -> None:
    break_disk(more)
    found = Intact(tmp_path, others={"b": more})

    found.registered(12, found.losses)

    assert found.since == 12
    file_ops.stop_recording()
    assert Intact(tmp_path, others={"b": more}).since == 0, "it may have been emptied"


@pytest.mark.usefixtures("disks")
def test_another_directory_that_cannot_be_read_counts_as_emptied(
    tmp_path: Path, more: Path
) -> None:
    registered(tmp_path, more, 12)
    break_disk(more)

    assert Intact(tmp_path, others={"b": more}).since == 0


@pytest.mark.usefixtures("disks")
def test_a_new_directory_that_cannot_be_read_may_have_partitions(
    tmp_path: Path, more: Path
) -> None:
    intact.write(tmp_path, 12)
    break_disk(more)

    assert Intact(tmp_path, others={"b": more}).since == 0


def test_directories_are_older_than_a_store_that_was_imported_since(
    tmp_path: Path, more: Path
) -> None:
    registered(tmp_path, more, 4711)

    assert Intact(tmp_path, "import", 5, {"b": more}).since == 1
