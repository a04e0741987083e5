"""What the disk keeps through a crash at any moment in which a replica's log is cut.

The log that a start finds is the log before the cut, the log after it or one that ends in between:
never one with a batch after a missing one, or with batches of both before and after the cut.

pytest tests/crash_states/test_truncation.py --crash-states 100000     more states than usual
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker._native.kernel import file_ops
from broker._native.log.commit import CommitThread
from tests.crash_states.choices import Sampled
from tests.crash_states.disk import Disk, Operation, State, put
from tests.crash_states.exploration import CHANGES
from tests.crash_states.record import Record
from tests.support.cut_log import CutLog, content_of, kept, reading, state_of
from tests.support.native_log import appended, records
from tests.support.run_seed import seeds_of_run

pytestmark = pytest.mark.usefixtures("silent_log")

STATES_PER_MOMENT = 3
STATES = 1_200  # by default, of each test
SEEDS_MAX = 400
COMMIT = CommitThread(1)
ANEW = 1_000  # a log start far after the log's end


class Past(NamedTuple):
    """What happened to a log: it grew, was cut, and grew again."""

    operations: list[Operation]
    cut_begins: int  # place in the operations
    cut_ends: int
    before: list[bytes]  # its batches
    after: list[bytes]
    grown: list[bytes]
    start: int  # of the log after the cut


def lived(root: Path, rng: Random, durability: str, cut: Callable[[CutLog, int], int]) -> Past:
    """Let a log grow, have it cut, and let it grow again; record what the disk is told."""
    record = Record(root)
    file_ops.start_recording()
    try:
        broker = CutLog(root, COMMIT, durability)
        log = broker.make()
        broker.grow(log, rng, rng.randint(8, 40))
        broker.finish(log)
        if rng.random() < 0.5:
            broker.checkpoint()
        before = content_of(log)
        record.drain()
        begins = len(record.operations)
        offset = cut(broker, rng.choice([0, log.log_end_offset // 2, log.log_end_offset - 1]))
        record.drain()
        ends = len(record.operations)
        after = kept(before, offset) if log.log_start_offset == 0 else []
        assert content_of(log) == after
        start = log.log_start_offset
        log.start_epoch(log.leader_epoch + rng.randint(1, 3))
        broker.grow(log, rng, rng.randint(1, 12))
        broker.finish(log)
        broker.checkpoint()
        record.drain()
        return Past(
            record.operations, begins, ends, before, after, content_of(log)[len(after) :], start
        )
    finally:
        file_ops.stop_recording()


def states_of(root: Path, past: Past, rng: Random) -> Iterator[tuple[int, State, bool]]:
    """Yield states that a crash may leave from the cut on; whether it was a kill."""
    disk = Disk(root)
    for place, operation in enumerate(past.operations):
        disk.apply(operation)
        if place < past.cut_begins or operation[0] not in CHANGES:
            continue
        for _ in range(STATES_PER_MOMENT):
            yield place, disk.after_crash(Sampled(rng)), False
        if rng.random() < 0.2:
            yield place, disk.after_kill(), True


def check(path: Path, past: Past, place: int, *, keeps_all: bool, rng: Random) -> None:
    """Start on a state, and compare the log with what it may be."""
    broker = CutLog(path, COMMIT)
    log = broker.open()
    found = content_of(log)
    if place < past.cut_ends:
        assert found == past.before[: len(found)] or (
            past.start and found == [] and log.log_end_offset == past.start
        )
        if keeps_all and not past.start:
            assert len(found) >= len(past.after)
    else:
        assert found == [*past.after, *past.grown][: len(found)]
        assert len(found) >= len(past.after)
        assert log.log_start_offset == past.start
    assert not (keeps_all and broker.losses)
    starts = [start for _, start in log.epoch_entries]
    assert starts == sorted(starts)
    assert all(start <= log.log_end_offset for start in starts)
    if not past.start:
        expected = state_of(reading(path / "reading", broker.turn, found))
        assert state_of(log)._replace(epochs=[]) == expected._replace(epochs=[])
    if rng.random() < 0.2:
        log.start_epoch(100)
        appended(log, records(size=300))
        broker.finish(log)
        stored = content_of(log)
        shutil.rmtree(path / "reading", ignore_errors=True)
        again = CutLog(path, COMMIT)
        assert content_of(again.open()) == stored


def check_states(
    seed: int, durability: str, cut: Callable[[CutLog, int], int], at_most: int
) -> int:
    """Check the states of one seed; return how many."""
    rng = Random(f"{seed} {durability}")
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    with ExitStack() as left:
        left.callback(shutil.rmtree, folder)
        root = folder / "lived"
        root.mkdir()
        past = lived(root, rng, durability, cut)
        count = 0
        for place, state, is_kill in states_of(root, past, rng):
            path = folder / str(count)
            path.mkdir()
            put(state, path)
            keeps_all = is_kill or durability == "group-commit"
            try:
                check(path, past, place, keeps_all=keeps_all, rng=rng)
            except Exception as error:
                error.add_note(
                    f"seed {seed}, state {count}, operation {place}: "
                    f"{[(op, name) for op, name, *_ in past.operations[: place + 1]][-9:]}"
                )
                raise
            shutil.rmtree(path)
            count += 1
            if count >= at_most:
                break
    return count


def truncated(broker: CutLog, offset: int) -> int:
    (log,) = broker.partitions._logs.values()
    broker.cut(log, offset)
    return log.log_end_offset


def begun_anew(broker: CutLog, _offset: int) -> int:
    (log,) = broker.partitions._logs.values()
    broker.begin_anew(log, ANEW)
    return ANEW


@pytest.mark.parametrize("durability", ["group-commit", "os"])
@pytest.mark.parametrize("cut", [truncated, begun_anew])
def test_a_crash_leaves_a_log_of_the_first_batches(
    durability: str, cut: Callable[[CutLog, int], int], pytestconfig: pytest.Config
) -> None:
    wanted = min(pytestconfig.getoption("--crash-states"), STATES)
    if pytestconfig.getoption("--crash-states") > STATES * 10:
        wanted = pytestconfig.getoption("--crash-states") // 4
    first = seeds_of_run(pytestconfig, "cut_states")
    count = 0
    for seed in range(first, first + max(SEEDS_MAX, wanted)):
        count += check_states(seed, durability, cut, wanted - count)
        if count >= wanted:
            return
    raise AssertionError(f"only {count} states")
