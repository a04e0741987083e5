"""A swap of a compacted segment for others is atomic, wherever it is interrupted."""

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import codec
from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker._native.log.segment_check import digest_of
from broker.model.errors import StorageError
from broker.segments.digests import Digest, read_digest
from broker.segments.names import DAMAGE, LOG, file_name
from broker.storage.files import digests, swap
from broker.storage.files.swap import Swap
from tests.support.compacting import compacted, contents, job_of, newest, swap_in, written
from tests.support.native_log import NOW_MS, Logs, appended, records

CHANGES = {"rename", "remove", "write", "sync", "sync_folder", "open"}
WRITES = [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)]
LAST = newest(WRITES)
ALL = {(offset, *write) for offset, write in enumerate(WRITES)}
KEPT = {(offset, key, value) for key, (offset, value) in LAST.items()}


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    yield
    file_ops.stop_recording()


def made_ready(path: Path) -> tuple[Swap, int]:
    """Return a swap of all sealed segments of a closed log, and the log's end."""
    logs = Logs(path)
    log = written(logs, WRITES)
    appended(log, records(1))
    logs.settle(log)
    bases = [base for base, _, _ in log.segment_entries[:-1]]
    take_digests(logs.folder(), bases)
    [ready], _ = compacted(job_of(log, [bases]))
    logs.commit.stop()
    return ready, log.log_end_offset


def take_digests(folder: Path, bases: list[int]) -> None:
    for base in bases:
        log = folder / file_name(base, LOG)
        content = log.read_bytes()
        digest = Digest(digest_of(content), len(content), NOW_MS)
        assert digests.write(folder, base, digest, log.stat().st_ino)


def do(ready: Swap) -> None:
    swap.commit(ready)
    swap.install(ready)
    swap.finish(ready)


def steps(work: list[str]) -> list[tuple[str, int]]:
    """Return each operation and how many of its kind came before it."""
    return [(kind, work[:place].count(kind)) for place, kind in enumerate(work)]


def recorded_changes() -> list[str]:
    return [operation[0] for operation in file_ops.recorded() if operation[0] in CHANGES]


def stopped_everywhere(origin: Path, ready: Swap) -> Iterator[tuple[Path, Swap, str]]:
    """Yield a copy of the folder for each operation of a swap: the state if it fails first."""
    rehearsal = copied(origin, ready, "rehearsal")
    file_ops.start_recording()
    do(rehearsal)
    changes = recorded_changes()
    file_ops.stop_recording()
    for place, (kind, before) in enumerate(steps(changes)):
        again = copied(origin, ready, f"stop-{place}")
        file_ops.start_recording()
        file_ops.fail(kind, str(again.folder), errno.EIO, before, 99)
        with pytest.raises(StorageError):
            do(again)
        file_ops.stop_recording()
        yield again.folder.parent, again, f"{place}: {kind}"


def copied(origin: Path, ready: Swap, name: str) -> Swap:
    target = origin.parent / name
    shutil.copytree(origin, target)
    return ready._replace(folder=target / ready.folder.name)


def reopened(path: Path, end: int) -> PartitionLog:
    """Open the log as a start after a kill does; everything below `end` was synced."""
    logs = Logs(path)
    log, behind = logs.recover(recovery_point=end, segment_bytes_max=400)
    assert behind == []
    logs.commit.stop()
    return log


def is_of_its_log(file: Path) -> bool:
    """Return whether a digest is that of the log beside it."""
    base = int(file.stem)
    digest = read_digest(file.parent, base)
    return digest is not None and digest.xxh3 == digest_of(file.with_suffix(".log").read_bytes())


def test_a_swap_interrupted_anywhere_leaves_the_old_log_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()
    ready, end = made_ready(tmp_path / "origin")
    seen = set()

    for path, stopped, step in stopped_everywhere(tmp_path / "origin", ready):
        swap.finish_swaps(stopped.folder)
        found = {row for row in contents(reopened(path, end)) if row[0] < end - 1}

        assert found in (ALL, KEPT), step
        seen.add(len(found))
        leftovers = {file.suffix for file in stopped.folder.iterdir()}
        assert leftovers <= {"", ".log", ".index", ".timeindex", ".digest", ".tmp"}, step
        assert all(is_of_its_log(file) for file in stopped.folder.glob("*.digest")), step
    assert seen == {len(ALL), len(KEPT)}


def test_completing_a_swap_may_be_interrupted_too(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()
    ready, end = made_ready(tmp_path / "origin")
    swap.commit(ready)
    rehearsal = copied(tmp_path / "origin", ready, "rehearsal")
    file_ops.start_recording()
    swap.finish_swaps(rehearsal.folder)
    changes = recorded_changes()
    file_ops.stop_recording()
    assert len(changes) > 10

    for place, (kind, before) in enumerate(steps(changes)):
        again = copied(tmp_path / "origin", ready, f"stop-{place}")
        file_ops.start_recording()
        file_ops.fail(kind, str(again.folder), errno.EIO, before, 99)
        with pytest.raises(StorageError):
            swap.finish_swaps(again.folder)
        file_ops.stop_recording()

        swap.finish_swaps(again.folder)
        log = reopened(again.folder.parent, end)
        assert {row for row in contents(log) if row[0] < end - 1} == KEPT, f"{place}: {kind}"


def test_the_new_files_are_durable_before_the_manifest_and_the_manifest_before_any_deletion(
    tmp_path: Path,
) -> None:
    ready, _ = made_ready(tmp_path)
    file_ops.start_recording()

    do(ready)

    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded() if op in CHANGES]
    manifest = done.index(("rename", ready.manifest.name + ".tmp"))
    assert done[:manifest].count(("sync_folder", ready.folder.name)) == 1
    assert done[manifest + 1] == ("sync_folder", ready.folder.name)
    first_removal = next(i for i, (op, _) in enumerate(done) if op == "remove")
    assert first_removal > manifest + 1
    assert ("sync_folder", ready.folder.name) in done[manifest + 2 : first_removal]


def test_compacted_files_without_a_manifest_are_removed(tmp_path: Path) -> None:
    ready, end = made_ready(tmp_path)
    (ready.folder / f"{5:020d}.log.swap").write_bytes(b"half a segment")

    swap.finish_swaps(ready.folder)

    assert not [file for file in ready.folder.iterdir() if file.suffix in {".cleaned", ".swap"}]
    assert {row for row in contents(reopened(tmp_path, end)) if row[0] < end - 1} == ALL


def test_producer_snapshots_are_kept(tmp_path: Path) -> None:
    ready, _ = made_ready(tmp_path)
    snapshot = ready.folder / f"{ready.old[1]:020d}.snapshot"
    snapshot.write_bytes(b"producers")

    do(ready)

    assert snapshot.exists()


def test_recorded_damage_is_removed_with_the_damaged_segment(tmp_path: Path) -> None:
    ready, _ = made_ready(tmp_path)
    for base in ready.old:
        (ready.folder / file_name(base, DAMAGE)).write_bytes(b"damage")

    do(ready)

    assert not list(ready.folder.glob(f"*{DAMAGE}"))


def test_an_unreadable_manifest_prevents_opening_the_log(tmp_path: Path) -> None:
    ready, _ = made_ready(tmp_path)
    swap.commit(ready)
    ready.manifest.write_text("0\n2\nkept 0\n")

    with pytest.raises(StorageError, match="not a valid manifest of a compaction"):
        swap.finish_swaps(ready.folder)


def test_segments_without_remaining_records_are_removed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = written(logs, [(b"key", b"value %d" % i) for i in range(20)])
    first, *_ = compacted(job_of(log))[0]
    assert first.new is None

    swap.commit(first)
    swap.finish_swaps(first.folder)

    assert not (first.folder / f"{first.old[0]:020d}.log").exists()
    logs.commit.stop()


def test_a_reader_finds_the_next_record_from_every_offset(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    log = written(logs, WRITES)
    for ready in compacted(job_of(log))[0]:
        swap_in(log, ready)

    assert set(contents(log)) == KEPT
    assert log.log_start_offset == 0
    for offset in range(len(WRITES)):
        first = next((row for row in sorted(KEPT) if row[0] >= offset), None)
        found = [row for row in contents_from(log, offset) if row[0] >= offset]
        assert found[:1] == ([first] if first else [])
    logs.commit.stop()


def contents_from(log: PartitionLog, offset: int) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(row.offset, row.key, row.value) for row in codec.records(log.read(offset, 1 << 20))]


# ---- of an open log -----------------------------------------------------------------------------


def test_the_swap_of_an_open_log_is_resolved_as_the_log_uses_its_files(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()
    ready, end = made_ready(tmp_path / "origin")
    rehearsal = copied(tmp_path / "origin", ready, "counted")
    file_ops.start_recording()
    swap.commit(rehearsal)
    committed = len(recorded_changes())
    swap.install(rehearsal)
    installed = committed + len(recorded_changes())
    file_ops.stop_recording()

    seen = set()
    for number, (path, stopped, step) in enumerate(stopped_everywhere(tmp_path / "origin", ready)):
        if committed < number < installed:
            continue  # the log is offline
        is_new = number >= installed
        used = [stopped.new] if is_new else stopped.old

        for _ in range(2):
            swap.resolve(stopped.folder, [*used, end - 1])
            leftovers = {file.suffix for file in stopped.folder.iterdir()}
            assert not leftovers & {".swap", ".cleaned", ".damage"}, step

        found = {row for row in contents(reopened(path, end)) if row[0] < end - 1}
        assert found == (KEPT if is_new else ALL), step
        seen.add(is_new)
    assert seen == {True, False}


@pytest.mark.parametrize("is_replaced", [True, False])
def test_the_swap_of_an_open_log_for_nothing_is_resolved(
    tmp_path: Path, *, is_replaced: bool
) -> None:
    ready, end = made_ready(tmp_path)
    swap.drop_cleaned(ready.folder)
    nothing = ready._replace(new=None)
    swap.commit(nothing)

    swap.resolve(nothing.folder, [end - 1] if is_replaced else [*nothing.old, end - 1])

    left = {int(file.stem) for file in nothing.folder.glob("*.log")}
    assert left == ({end - 1} if is_replaced else {*nothing.old, end - 1})
    assert not nothing.manifest.exists()
