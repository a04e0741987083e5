"""Since when a data directory has everything that was acknowledged."""

from pathlib import Path

import pytest

from broker.storage.checkpoints import intact
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


def test_a_later_registration_changes_nothing(tmp_path: Path) -> None:
    intact.write(tmp_path, 12)
    found = Intact(tmp_path)

    found.registered(99, found.losses)

    assert found.since == intact.read(tmp_path) == 12


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
