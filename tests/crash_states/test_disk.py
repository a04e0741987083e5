"""The simulated disk itself: every state that a power cut may leave after a few operations."""

import os
from pathlib import Path
from random import Random

from tests.crash_states.choices import Sampled, each
from tests.crash_states.disk import PAGE, SECTOR, Disk, Operation, State

ROOT = Path("/simulated")
OLD, NEW = b"o", b"n"


def disk_after(*operations: tuple[str, str, int, bytes], state: State | None = None) -> Disk:
    """Return a disk after the operations (op, path, position or size, data)."""
    disk = Disk(ROOT, state)
    for op, path, number, data in operations:
        whole = f"{ROOT}/{path}" if path else str(ROOT)
        content = f"{ROOT}/".encode() + data if op == "rename" else data
        recorded: Operation = (op, whole, number, number, content, 0)
        disk.apply(recorded)
    return disk


def left_by(disk: Disk) -> list[State]:
    return list(each(disk.after_crash, 1_000))


def made(path: str) -> tuple[str, str, int, bytes]:
    return ("open", path, os.O_CREAT, b"")


def test_unsynced_writes_may_or_may_not_survive() -> None:
    disk = disk_after(("write", "f", 0, NEW), state={"f": OLD})

    assert {left["f"] for left in left_by(disk)} == {OLD, NEW}


def test_synced_writes_survive() -> None:
    disk = disk_after(("write", "f", 0, NEW), ("sync_data", "f", 0, b""), state={"f": OLD})

    assert left_by(disk) == [{"f": NEW}]


def test_a_completed_sync_covers_what_was_written_when_it_began() -> None:
    begun = disk_after(
        ("write", "f", 0, NEW), ("begin_sync", "f", 1, b""), ("write", "f", 1, NEW),
        state={"f": b""},
    )  # fmt: skip
    ended = disk_after(
        ("write", "f", 0, NEW), ("begin_sync", "f", 1, b""), ("write", "f", 1, NEW),
        ("end_sync", "f", 1, b""), state={"f": b""},
    )  # fmt: skip

    assert {left["f"] for left in left_by(begun)} >= {b"", NEW, NEW + NEW}
    assert {left["f"] for left in left_by(ended)} == {NEW, NEW + b"\0", NEW + NEW}


def test_a_completed_folder_sync_covers_the_names_present_when_it_began() -> None:
    disk = disk_after(made("a"), ("begin_sync", "", 1, b""), made("b"), ("end_sync", "", 1, b""))

    assert left_by(disk) == [{"a": b""}, {"a": b"", "b": b""}]


def test_a_sync_that_ends_after_a_later_one_undoes_nothing() -> None:
    disk = disk_after(
        ("begin_sync", "f", 1, b""), ("write", "f", 0, NEW), ("sync_data", "f", 0, b""),
        ("end_sync", "f", 1, b""), state={"f": OLD},
    )  # fmt: skip

    assert left_by(disk) == [{"f": NEW}]


def test_a_sqlite_commit_is_durable_whole() -> None:
    disk = disk_after(("commit", "f", 0, NEW * PAGE), state={"f": OLD})

    assert left_by(disk) == [{"f": NEW * PAGE}]


def test_a_killed_process_loses_nothing() -> None:
    disk = disk_after(made("f"), ("write", "f", 0, NEW))

    assert disk.after_kill() == {"f": NEW}


def test_pages_reach_the_disk_in_any_order() -> None:
    disk = disk_after(("write", "f", 0, NEW * 2 * PAGE), state={"f": OLD * 2 * PAGE})

    found = {(left[0:1], left[PAGE : PAGE + 1]) for each in left_by(disk) if (left := each["f"])}

    assert found == {(OLD, OLD), (OLD, NEW), (NEW, OLD), (NEW, NEW)}


def test_a_file_size_may_reach_the_disk_before_its_bytes_which_then_read_as_zeros() -> None:
    disk = disk_after(("write", "f", 0, NEW), state={"f": b""})

    assert {left["f"] for left in left_by(disk)} == {b"", b"\0", NEW}


def test_a_page_may_be_torn_between_sectors() -> None:
    disk = disk_after(("write", "f", 0, NEW * PAGE), state={"f": OLD * PAGE})

    found = {disk.after_crash(Sampled(Random(seed)))["f"] for seed in range(200)}

    mixed = [left for left in found if left and len(set(left)) == 2]
    assert mixed
    for left in mixed:
        sectors = [set(left[at : at + SECTOR]) for at in range(0, PAGE, SECTOR)]
        assert all(len(sector) == 1 for sector in sectors)


def test_a_name_is_durable_once_its_folder_is_synced() -> None:
    unsynced = disk_after(made("f"), ("sync_data", "f", 0, b""))
    synced = disk_after(made("f"), ("sync_folder", "", 0, b""))

    assert left_by(unsynced) == [{}, {"f": b""}]
    assert left_by(synced) == [{"f": b""}]


def test_a_rename_is_atomic_and_does_not_make_the_content_durable() -> None:
    disk = disk_after(("write", "new", 0, NEW), ("rename", "new", 0, b"f"), state={
        "f": OLD, "new": b""
    })  # fmt: skip

    names = {tuple(sorted(left)) for left in left_by(disk)}
    contents = {left["f"] for left in left_by(disk) if len(left) == 1}

    assert names == {("f",), ("f", "new")}
    assert contents == {b"", b"\0", NEW}


def test_a_removed_file_may_reappear() -> None:
    disk = disk_after(("remove", "f", 0, b""), state={"f": OLD})

    assert left_by(disk) == [{"f": OLD}, {}]


def test_names_reach_the_disk_independently() -> None:
    disk = disk_after(made("a"), made("b"))

    assert sorted(map(sorted, left_by(disk))) == [[], ["a"], ["a", "b"], ["b"]]


def test_truncated_bytes_do_not_reappear_when_the_file_grows_again() -> None:
    disk = disk_after(
        ("truncate", "f", 1, b""), ("allocate", "f", 3 * PAGE, b""), state={"f": OLD * PAGE}
    )

    for left in left_by(disk):
        content = left["f"]
        assert content is not None
        assert len(content) == PAGE or not content[SECTOR:].strip(b"\0")


def test_a_file_system_sync_makes_everything_durable() -> None:
    disk = disk_after(
        ("make_folder", "d", 0, b""), made("d/f"), ("write", "d/f", 0, NEW),
        ("sync_filesystem", "", 0, b""),
    )  # fmt: skip

    assert left_by(disk) == [{"d": None, "d/f": NEW}]
