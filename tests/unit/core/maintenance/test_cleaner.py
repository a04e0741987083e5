"""Logs under compaction: real files and a real compactor; the test plays loop, clock and disk."""

import asyncio
import errno
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.log.segment_check import digest_of
from broker.core.maintenance import compactor_process
from broker.core.maintenance.cleaner import Cleaner, Settings
from broker.core.scheduling.child import environment
from broker.model import limits
from broker.model.config import load
from broker.model.errors import StorageError
from broker.model.guarded_clock import GuardedClock
from broker.model.log_results import AppendStatus
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.segments.digests import read_digest
from broker.storage.checkpoints import checkpoint
from broker.storage.files import swap
from tests.support import faulty_compactor
from tests.support.batches import batch_of
from tests.support.broker_process import wait_until
from tests.support.compacting import Writes, contents, newest, write, written
from tests.support.manual_clock import ManualClock
from tests.support.native_log import NOW_MS, Logs, appended, bases_of, records

WRITES = [(b"key %d" % (i % 3), b"value %d" % i) for i in range(20)]
BACKOFF_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Disk:
    """Fakes of the I/O thread and the recovery point checkpoint, which record their calls."""

    def __init__(self) -> None:
        self.saves = True
        self.failing: str | None = None  # name of the step that fails
        self.done: list[str] = []

    async def run(self, work: Callable[[], None]) -> bool:
        name = work.func.__name__ if isinstance(work, partial) else "?"
        await asyncio.sleep(0)
        if name == self.failing:
            return False
        work()
        self.done.append(name)
        return True

    async def has_done(self, step: str, times: int) -> None:
        while self.done.count(step) < times:
            await asyncio.sleep(0)

    async def save_recovery_points(self) -> bool:
        self.done.append("recovery points")
        return self.saves


class Bench:
    """One log under compaction."""

    def __init__(self, path: Path, writes: Writes, **config: str) -> None:
        self.path = path
        self.logs = Logs(path)
        self.disk = Disk()
        self.clock = ManualClock(NOW_MS)
        overrides = {"cleanup.policy": "compact", "segment.bytes": "1024"}
        overrides |= {name.replace("_", "."): text for name, text in config.items()}
        self.config = TopicConfig(overrides, load())
        self.log = written(self.logs, writes)
        self.cleaner = self.started()

    def started(self) -> Cleaner:
        settings = Settings(BACKOFF_MS, 1 << 20)
        return Cleaner(
            self.all, self.clock, self.disk.run, self.disk.save_recovery_points, self.path, settings
        )

    def all(self) -> Iterable[tuple[PartitionLog, TopicConfig]]:
        return [(self.log, self.config)]

    def clean(self) -> bool:
        return asyncio.run(self.cleaner.clean_next())

    @property
    def leftovers(self) -> list[str]:
        files = Path(self.log.folder).iterdir()
        return [file.name for file in files if file.suffix in {".cleaned", ".swap"}]

    @property
    def latest(self) -> dict[bytes | None, tuple[int, bytes | None]]:
        return {key: (offset, value) for offset, key, value in contents(self.log)}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield (bench := Bench(tmp_path, WRITES))
    bench.logs.commit.stop()


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the broker's warnings; asyncio has some of its own about ended processes."""
    return [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.WARNING and each.name.startswith("broker.")
    ]


def test_a_due_log_keeps_the_last_value_of_every_key(bench: Bench) -> None:
    assert bench.clean()

    assert bench.latest == newest(WRITES)
    assert len(contents(bench.log)) == 3
    assert bench.leftovers == []
    assert bases_of(bench.log)[-1] == 20
    found = text_files.read_offsets(bench.path / text_files.CLEANER_OFFSETS)
    assert found == {("topic", 0): 20}


def test_a_clean_log_is_not_compacted_again_even_after_a_restart(bench: Bench) -> None:
    bench.clean()

    assert not bench.clean()
    bench.cleaner = bench.started()
    assert not bench.clean()


def test_later_records_are_compacted_with_the_clean_part(bench: Bench) -> None:
    bench.clean()
    more = [(b"key %d" % (i % 4), b"newer %d" % i) for i in range(20)]
    write(bench.logs, bench.log, more)
    bench.log.roll()
    bench.logs.settle(bench.log)

    assert bench.clean()

    assert bench.latest == newest([*WRITES, *more])
    assert len(contents(bench.log)) == 4


def test_a_topic_with_cleanup_policy_delete_is_not_compacted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WRITES, cleanup_policy="delete")

    assert not bench.clean()
    assert len(contents(bench.log)) == len(WRITES)


def test_recovery_points_are_durable_before_anything_is_compacted(bench: Bench) -> None:
    bench.clean()

    assert bench.disk.done.index("recovery points") < bench.disk.done.index("commit")

    bench.disk.saves = False
    write(bench.logs, bench.log, WRITES)
    before = contents(bench.log)
    assert bench.clean()
    assert contents(bench.log) == before


def test_a_damaged_log_is_not_compacted_and_logged_once(
    bench: Bench, logged: pytest.LogCaptureFixture
) -> None:
    file = Path(bench.log.folder) / f"{bases_of(bench.log)[1]:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    names = sorted(Path(bench.log.folder).iterdir())

    assert bench.clean()

    assert sorted(Path(bench.log.folder).iterdir()) == names
    errors = [each for each in logged.records if each.levelno == logging.ERROR]
    assert len(errors) == 1
    assert bench.log.folder in errors[0].getMessage()
    bench.clock.advance(10 * BACKOFF_MS)
    assert not bench.clean()


def test_a_compactor_that_dies_leaves_no_files_and_is_restarted_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(compactor_process, "_MODULE", "broker.no_such_module")
        assert bench.clean()
    assert any("the process ended with 1" in line for line in warnings(logged))
    assert bench.leftovers == []
    assert not bench.clean()

    bench.clock.advance(BACKOFF_MS)

    assert bench.clean()
    assert bench.latest == newest(WRITES)


@pytest.mark.parametrize(
    ("operation", "error"), [("write", errno.ENOSPC), ("sync", errno.EIO), ("read", errno.EIO)]
)
def test_a_log_whose_compaction_fails_on_the_disk_is_unchanged_and_retried_later(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    logged: pytest.LogCaptureFixture,
    operation: str,
    error: int,
) -> None:
    last = bases_of(bench.log)[-2]
    before = (Path(bench.log.folder) / f"{last:020d}.log").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(compactor_process, "_MODULE", faulty_compactor.NAME)
        patch.setenv(faulty_compactor.FAULTS, json.dumps([[operation, ".log", error]]))
        for _ in range(3):  # once per interval, however often it is requested
            assert bench.clean()
            assert not bench.clean()
            bench.clock.advance(BACKOFF_MS)

    assert len(warnings(logged)) == 3
    assert all(os.strerror(error) in line for line in warnings(logged))
    assert (Path(bench.log.folder) / f"{last:020d}.log").read_bytes() == before
    assert bench.leftovers == []
    assert bench.log.is_in_service
    assert bench.latest == newest(WRITES)
    assert bench.clean()
    assert bench.latest == newest(WRITES)


def test_a_stalled_compactor_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "COMPACTION_STALLED_SECONDS", 1)
    stuck = Path(bench.log.folder) / f"{0:020d}.log"
    stuck.unlink()
    os.mkfifo(stuck)  # reading it blocks until there is a writer, which never comes

    assert bench.clean()

    assert any("stood still for 1 s" in line for line in warnings(logged))


def test_segments_deleted_by_retention_during_compaction_are_not_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is withdrawn: otherwise the next start would restore the segments."""

    def commit(ready: swap.Swap) -> None:
        swap_commit(ready)
        bench.log.move_log_start(bases_of(bench.log)[2])
        bench.log.drop_segments(1)

    swap_commit = swap.commit
    monkeypatch.setattr(swap, "commit", commit)

    assert bench.clean()

    assert "undo" in bench.disk.done
    assert bench.leftovers == []
    assert bench.log.is_in_service


@pytest.mark.parametrize("step", ["commit", "finish"])
def test_a_log_whose_swap_was_interrupted_is_left_to_the_next_start(
    bench: Bench, step: str, logged: pytest.LogCaptureFixture
) -> None:
    bench.disk.failing = step

    assert bench.clean()

    assert any("a swap was cut off" in line for line in warnings(logged))
    bench.clock.advance(10 * BACKOFF_MS)
    bench.disk.failing = None
    assert not bench.clean()
    swap.finish_swaps(Path(bench.log.folder))
    assert bench.leftovers == []
    assert bench.latest == newest(WRITES)


def test_a_half_finished_rename_takes_the_log_offline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_ready: swap.Swap) -> None:
        raise StorageError("rename: no")

    monkeypatch.setattr(swap, "install", install)

    bench.clean()

    assert not bench.log.is_in_service


def test_a_topic_deleted_during_compaction_is_not_logged_as_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    async def save() -> bool:
        bench.log.retire()
        bench.cleaner.topic_deleted("topic")
        return True

    monkeypatch.setattr(bench.cleaner, "_save_recovery_points", save)

    bench.clean()

    assert warnings(logged) == []
    assert not bench.clean()


def test_the_cleaner_offsets_of_a_deleted_topic_are_removed(bench: Bench) -> None:
    bench.clean()

    async def delete() -> None:
        bench.cleaner.topic_deleted("topic")
        await asyncio.wait_for(bench.disk.has_done("write_offsets", times=2), 60)

    asyncio.run(delete())

    assert text_files.read_offsets(bench.path / text_files.CLEANER_OFFSETS) == {}


def test_the_cleaner_offset_of_a_partition_that_was_moved_away_is_removed(bench: Bench) -> None:
    """It may come back: then all that this broker copies is dirty."""
    bench.clean()

    async def remove() -> None:
        bench.cleaner.partition_removed("topic", 1)  # that has none
        bench.cleaner.partition_removed("topic", 0)
        await asyncio.wait_for(bench.disk.has_done("write_offsets", times=2), 60)

    asyncio.run(remove())

    assert text_files.read_offsets(bench.path / text_files.CLEANER_OFFSETS) == {}


def test_a_start_removes_the_cleaner_offsets_of_missing_topics(bench: Bench) -> None:
    file = bench.path / text_files.CLEANER_OFFSETS
    checkpoint.write_offsets(file, {("gone", 0): 7, ("topic", 0): 3})
    bench.cleaner = bench.started()

    async def start() -> None:
        running = asyncio.ensure_future(bench.cleaner.run())
        await asyncio.wait_for(bench.disk.has_done("write_offsets", times=1), 60)
        running.cancel()

    asyncio.run(start())

    assert text_files.read_offsets(file) == {("topic", 0): 3}


def test_records_past_max_compaction_lag_are_rolled_and_compacted_whatever_the_ratio(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, [], min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="1000")
    write(bench.logs, bench.log, WRITES[:6])
    assert not bench.clean()

    bench.clock.advance(2_000)
    bench.clean()
    bench.logs.settle(bench.log)
    bench.clean()

    assert bench.latest == newest(WRITES[:6])
    assert len(contents(bench.log)) == 3


def test_stopping_ends_the_compactor(bench: Bench) -> None:
    stuck = Path(bench.log.folder) / f"{0:020d}.log"
    stuck.unlink()
    os.mkfifo(stuck)

    async def start_and_stop() -> None:
        task = asyncio.ensure_future(bench.cleaner.clean_next())
        while not (children := compactors()):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not {*children} & {*compactors()}

    asyncio.run(start_and_stop())


def compactors() -> list[int]:
    """Return the compactor processes of this process."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(pid)
        for pid in found
        if compactor_process._MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


PARENT = """
import asyncio, json, os, sys
from broker.core.maintenance.compactor_process import compacting
from broker.storage.maintenance.compactor import Job

async def main() -> None:
    lock = open(sys.argv[2], "w")
    job = Job(**json.loads(sys.argv[1]))._replace(parent_pid=os.getpid())
    async with compacting(job) as messages:
        await anext(messages)
        print("begun", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_compactor_dies_with_a_killed_parent_and_holds_no_lock_of_it(
    tmp_path: Path, bench: Bench
) -> None:
    job: dict[str, Any] = {
        "folder": bench.log.folder,
        "groups": [[(0, bench.log.segment_entries[0][1]), (7, 99)]],
        "first_dirty_offset": 0,
        "end_offset": 20,
        "map_bytes": 1 << 20,
        "now_ms": NOW_MS,
        "delete_retention_ms": 0,
        "index_interval_bytes": 100,
        "decompressed_bytes_max": 1 << 20,
        "producer_ends": [],
        "aborted": [],
        "parent_pid": 0,
    }
    os.mkfifo(Path(bench.log.folder) / f"{7:020d}.log")
    lock = tmp_path / "broker.lock"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(job), str(lock)],
        stdout=subprocess.PIPE,
        env=environment(),
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"begun\n"
        [child] = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        open_files = [str(file.readlink()) for file in Path(f"/proc/{child}/fd").iterdir()]

        parent.send_signal(signal.SIGKILL)

        assert str(lock) not in open_files
        wait_until(lambda: not is_running(int(child)), "the compactor has ended")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # before the open, or after it
        return False
    return state != "Z"


def test_producers_continue_their_sequences_after_all_their_records_were_removed(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, [])
    batch = records(2, size=8, producer_id=7, producer_epoch=0, base_sequence=5)
    keyed = [(b"key", b"value %d" % i) for i in range(20)]
    appended(bench.log, batch)
    write(bench.logs, bench.log, keyed)
    bench.log.roll()
    bench.logs.settle(bench.log)

    bench.clean()

    assert len(contents(bench.log)) == 1
    first = bench.log.read(0, 1)
    assert int.from_bytes(first[57:61]) == 0  # records
    assert int.from_bytes(first[53:57]) == 5  # base sequence
    status, *_ = bench.log.append(batch)
    assert status is AppendStatus.DUPLICATE


def transaction(log: PartitionLog, sequence: int, key: bytes, *, is_abort: bool) -> None:
    """Append a record in a transaction, and its marker."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    value = b"in a transaction"
    log.admit_transaction(7, 0)
    appended(log, batch_of([(key, value, [])], NOW_MS, base_sequence=sequence, **fields))
    kind = b"\0\0\0\0" if is_abort else b"\0\0\0\1"
    log.append_internal(batch_of([(kind, b"\0" * 6, [])], NOW_MS, is_control=True, **fields))


def aborted_in(log: PartitionLog) -> list[tuple[int, int, int]]:
    return log.aborted_transactions(0, log.log_end_offset)


def test_aborted_records_are_removed_and_listed_as_aborted_as_long_as_needed(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, [], delete_retention_ms="1000")
    write(bench.logs, bench.log, [(b"key", b"committed")])
    transaction(bench.log, 0, b"key", is_abort=True)
    transaction(bench.log, 1, b"other", is_abort=False)
    write(bench.logs, bench.log, [(b"filler %d" % i, b"x" * 20) for i in range(8)])
    bench.log.roll()
    bench.logs.settle(bench.log)
    assert aborted_in(bench.log) == [(7, 1, 2)]
    names = [bench.log.folder, f"{0:020d}.txnindex"]

    bench.clean()

    assert bench.latest[b"key"] == (0, b"committed")
    assert bench.latest[b"other"] == (3, b"in a transaction")
    assert aborted_in(bench.log) == [(7, 1, 2)]
    assert Path(*names).stat().st_size == 34
    digest = read_digest(Path(bench.log.folder), 0)
    assert digest is not None
    assert digest.aborted_xxh3 == digest_of(Path(*names).read_bytes())

    write(bench.logs, bench.log, [(b"filler", b"x" * 20) for _ in range(20)])
    bench.log.roll()
    bench.logs.settle(bench.log)
    bench.clean()

    assert aborted_in(bench.log) == []
    assert bench.latest[b"key"] == (0, b"committed")


@pytest.mark.parametrize("days", [1, -1])
def test_a_wall_clock_step_removes_no_tombstone_early_and_delays_no_deadline(
    tmp_path: Path, days: int
) -> None:
    bench = Bench(tmp_path, WRITES, delete_retention_ms=str(DAY_MS // 2))
    machine = ManualClock(NOW_MS)
    bench.cleaner._clock = GuardedClock(machine, "boot", None, 0)
    compact_all(bench, [(b"seen before", None)])
    machine.set_wall_ms(NOW_MS + days * DAY_MS)
    compact_all(bench, [(b"seen since", None)])

    machine.advance(HOUR_MS)
    compact_all(bench, [])
    machine.set_wall_ms(NOW_MS + HOUR_MS)
    compact_all(bench, [])

    assert {b"seen before", b"seen since"} <= set(bench.latest)
    machine.advance(2 * DAY_MS)
    compact_all(bench, [])
    assert b"seen before" not in bench.latest


def compact_all(bench: Bench, writes: Writes) -> None:
    """Write, and compact it with everything else."""
    filler = [(b"filler", b"x" * 20) for _ in range(40)]
    write(bench.logs, bench.log, [*writes, *filler])
    bench.log.roll()
    bench.logs.settle(bench.log)
    bench.clean()


class Looking(Cleaner):
    """Compaction that says when it looks what is due, and never finds anything."""

    async def clean_next(self) -> bool:
        self.has_looked.set()
        return False

    has_looked: asyncio.Event


def test_altered_settings_apply_at_once(bench: Bench) -> None:
    disk, an_hour = bench.disk, Settings(3_600_000, 1 << 20)
    save = disk.save_recovery_points
    cleaner = Looking(bench.all, bench.clock, disk.run, save, bench.path, an_hour)

    async def alter() -> None:
        cleaner.has_looked = asyncio.Event()
        running = asyncio.ensure_future(cleaner.run())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not cleaner.has_looked.is_set()
        cleaner.alter_settings(an_hour._replace(map_bytes=1 << 21))
        await asyncio.wait_for(cleaner.has_looked.wait(), 60)
        running.cancel()

    asyncio.run(alter())


def test_the_compactor_of_a_log_that_the_broker_leaves_is_ended_and_others_go_on(
    bench: Bench,
) -> None:
    stuck = Path(bench.log.folder) / f"{0:020d}.log"
    content = stuck.read_bytes()
    stuck.unlink()
    os.mkfifo(stuck)

    async def leave() -> None:
        cleaning = asyncio.ensure_future(bench.cleaner.clean_next())
        while not (children := compactors()):
            await asyncio.sleep(0.01)
        await bench.cleaner.leave(bench.log)
        assert not {*children} & {*compactors()}
        assert await cleaning  # it was not cancelled: another log may be due

    asyncio.run(leave())
    stuck.unlink()
    stuck.write_bytes(content)
    assert not bench.clean()
    bench.clock.advance(2 * BACKOFF_MS)

    assert bench.clean()
    assert bench.latest == newest(WRITES)


def test_a_swap_is_not_continued_in_a_log_that_the_broker_has_left(bench: Bench) -> None:
    async def leave() -> list[str]:
        cleaning = asyncio.ensure_future(bench.cleaner.clean_next())
        await bench.disk.has_done("commit", 1)
        await bench.cleaner.leave(bench.log)
        assert not bench.cleaner.is_swapping(bench.log)
        left = bench.leftovers
        await cleaning
        return left

    left = asyncio.run(leave())

    assert bench.leftovers == left


def test_a_log_that_the_broker_leaves_while_others_are_planned_is_not_compacted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may be another broker's by the time that the pass begins."""
    monkeypatch.setattr(limits, "LOGS_CHECKED_PER_STEP", 1)

    async def leave() -> None:
        looking = asyncio.ensure_future(bench.cleaner.clean_next())
        await asyncio.sleep(0)  # it has planned the pass, and lets other work run
        await bench.cleaner.leave(bench.log)
        bench.log.release()
        await looking

    asyncio.run(leave())

    assert bench.disk.done == []
    assert bench.leftovers == []


def first_dirty(bench: Bench) -> int | None:
    """Return where the log's dirty part begins, as it is on the disk."""
    offsets = text_files.read_offsets(bench.path / text_files.CLEANER_OFFSETS)
    return offsets.get((bench.log.topic, bench.log.partition))


@pytest.mark.parametrize("offset", [0, 5])
def test_what_is_appended_after_a_cut_is_dirty(bench: Bench, offset: int) -> None:
    assert bench.clean()
    clean_end = first_dirty(bench)
    assert clean_end is not None
    assert clean_end > offset

    asyncio.run(bench.cleaner.cut(bench.log, clean_end))
    assert first_dirty(bench) == clean_end
    asyncio.run(bench.cleaner.cut(bench.log, offset))
    assert first_dirty(bench) == offset
    asyncio.run(bench.cleaner.cut(bench.log, clean_end))
    assert first_dirty(bench) == offset


def test_a_cut_whose_dirty_part_is_not_durable_is_refused(bench: Bench) -> None:
    assert bench.clean()
    bench.disk.failing = "write_offsets"

    with pytest.raises(StorageError, match="clean part"):
        asyncio.run(bench.cleaner.cut(bench.log, 0))
