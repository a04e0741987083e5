"""Which metadata stores are older than what a broker has seen, and the file that tells it."""

from pathlib import Path

import pytest

from broker.model.limits import RESTORES_KNOWN_MAX
from broker.storage.checkpoints import store_seen
from broker.storage.checkpoints.store_seen import StoreSeen

SEEN = StoreSeen("c", 100, 50, ("none", "x", "y"))


@pytest.mark.parametrize(
    ("found", "is_older"),
    [
        (StoreSeen("c", 100, 50, ("y",)), False),
        (StoreSeen("c", 101, 50, ("y",)), False),
        (StoreSeen("c", 99, 50, ("y",)), True),
        (StoreSeen("c", 110, 49, ("y",)), True),  # leases have ended after the restore
        (StoreSeen("c", 110, 60, ("y",)), False),
        (StoreSeen("c", 5, 50, ("z",)), False),  # restored, and declared so
        (StoreSeen("c", 200, 50, ("x",)), True),  # a backup from before the last restore
        (StoreSeen("c", 200, 50, ("none",)), True),
        (StoreSeen("other", 5, 50, ("none",)), False),  # the directory has joined another cluster
    ],
)
def test_a_store_is_older_by_its_revision_unless_a_new_restore_was_declared(
    found: StoreSeen, is_older: bool
) -> None:
    assert found.is_older_than(SEEN) is is_older


def test_restores_are_remembered_up_to_a_limit() -> None:
    seen = StoreSeen("c", 1, 50, ("none",))
    for number in range(2 * RESTORES_KNOWN_MAX):
        seen = StoreSeen("c", 1, 50, (str(number),)).with_restores_of(seen)

    assert len(seen.restores) == RESTORES_KNOWN_MAX
    assert seen.restores[-1] == str(2 * RESTORES_KNOWN_MAX - 1)
    assert seen.with_restores_of(seen) == seen
    assert StoreSeen("d", 1, 50, ("none",)).with_restores_of(seen).restores == ("none",)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert store_seen.read(tmp_path) is None

    store_seen.write(tmp_path, SEEN)

    assert store_seen.read(tmp_path) == SEEN


@pytest.mark.parametrize(
    "text", ["", "revision=1\n", "cluster.id=c\nchanged=1\nrestores=none\nrevision=x\n"]
)
def test_a_damaged_file_counts_as_missing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / store_seen.FILE_NAME).write_text(text)

    assert store_seen.read(tmp_path) is None
    assert "damaged checkpoint" in caplog.text
