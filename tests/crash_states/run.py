"""Runs one seed: several broker runs on one disk, and every crash of them that is checked.

A state is identified by its seed and its own number: `replay` checks that one again.
"""

import asyncio
import copy
import gc
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from broker._native.kernel import file_ops
from broker.core.maintenance import cleaner
from broker.core.topics import topics
from tests.crash_states.bit_flips import SHARE, flipped
from tests.crash_states.broker_run import MORE, BrokerRun, compacting_here
from tests.crash_states.check import committed, start_and_check
from tests.crash_states.choices import Sampled, each
from tests.crash_states.disk import Disk, Operation, State, put
from tests.crash_states.driver import GROUPS, Driver
from tests.crash_states.expected_state import ExpectedState
from tests.crash_states.finding import Finding
from tests.crash_states.record import Event, Record

LIVES = 3
STEPS = 14
STATES_PER_SEED = 1 << 20  # more than a run has: a state's number is seed * this + index
COLLECTED_EVERY = 256  # runs are reference cycles and hold descriptors
ENUMERATED_MAX = 24  # states of one moment that are all checked
CHANGES = {
    "open", "write", "allocate", "truncate", "sync_data", "sync", "sync_folder",
    "sync_filesystem", "rename", "remove", "make_folder", "commit", "end_sync",
}  # fmt: skip
# What clients and operators do, and how often; each run leaves some of it out.
SCENARIOS = {
    "everything": {
        "produce": 10,
        "end_transaction": 3,
        "create_topic": 3,
        "enlarge_topic": 1,
        "delete_topic": 1,
        "recreate_topic": 1,
        "commit_offset": 2,
        "checkpoint": 2,
        "retain": 2,
        "delete_records": 1,
        "compact": 3,
        "rest": 1,
    },
    "topics": {
        "produce": 3,
        "create_topic": 3,
        "enlarge_topic": 3,
        "delete_topic": 3,
        "recreate_topic": 3,
        "checkpoint": 1,
        "retain": 1,
    },
    "transactions": {
        "transact": 8,
        "produce": 3,
        "create_topic": 2,
        "delete_topic": 1,
        "commit_offset": 1,
        "checkpoint": 2,
        "retain": 1,
        "compact": 1,
        "rest": 1,
    },
    "checkpoints": {"produce": 3, "checkpoint": 2},  # what a recovery point does not cover
    "tails": {"produce": 1},  # batches of one size in short runs, for what is rare elsewhere
}
# The scenarios, used by seeds in turn.
_SHARES = ("everything", "everything", "topics", "transactions")


def scenario_of(seed: int) -> str:
    """The scenario of a seed's runs."""
    return _SHARES[seed % len(_SHARES)]


class Bug(NamedTuple):
    """A way to break the rules on purpose; each part does nothing unless given."""

    operations: Callable[[list[Operation]], list[Operation]] = lambda operations: operations
    state: Callable[[State], State] = lambda state: state
    patched: Callable[[], AbstractContextManager[object]] = nullcontext


class CrashState(NamedTuple):
    """One state that was checked."""

    number: int
    scenario: str
    findings: list[Finding]
    lost_as_stated: bool


class _Moment(NamedTuple):
    """The state in which the next run begins."""

    disk: Disk
    expected: ExpectedState


def crash_states(
    seed: int,
    bug: Bug = Bug(),  # noqa: B008 (a tuple)
    only: int | None = None,
    scenario: str = "",
) -> Iterator[CrashState]:
    """Check the crash states of one seed; or one of them alone, or of another scenario."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    loop = asyncio.new_event_loop()
    try:
        with (
            patch.object(cleaner, "compacting", compacting_here),
            patch.object(topics, "random_id", partial(_topic_id, Random(seed))),
            bug.patched(),
        ):
            run = _Run(seed, bug, folder, loop, only, scenario or scenario_of(seed))
            yield from run.states()
    finally:
        file_ops.stop_recording()
        loop.close()
        shutil.rmtree(folder)


class _Run:
    """All runs of a seed."""

    def __init__(
        self,
        seed: int,
        bug: Bug,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
        only: int | None,
        scenario: str,
    ) -> None:
        self._seed = seed
        self._bug = bug
        self._folder = folder
        self._loop = loop
        self._only = only
        self._rng = Random(seed)
        self._scenario = scenario
        self._place = 0
        self._folders = 0

    def states(self) -> Iterator[CrashState]:
        # Half of the seeds have another directory for partitions.
        moment = _Moment(
            Disk(self._folder, {MORE: None} if self._seed % 2 else None), ExpectedState()
        )
        is_power_cut = False
        for number in range(LIVES):
            record = self._live(moment, is_first=number == 0)
            operations = self._bug.operations(record.operations)
            crash = self._rng.randrange(len(operations) * 2)  # half of them: after the last moment
            following: list[_Moment] = []
            is_power_cut = self._rng.random() < 0.6
            for at in self._moments(moment, operations, record.events):
                if not following and at >= min(crash, len(operations)):
                    following.append(self._next(moment, is_power_cut=is_power_cut))
                yield from self._look(moment)
            moment = following[0] if following else moment

    def _live(self, moment: _Moment, *, is_first: bool) -> Record:
        """Record a run that begins there."""
        path = self._make(moment.disk.after_kill())
        moment.disk.move(path)
        rng = Random(self._rng.random())
        record = Record(path)
        file_ops.start_recording()
        broker = BrokerRun(path, self._loop, record)
        is_coordinated = "transact" in SCENARIOS[self._scenario]
        driver = Driver(broker, record, rng, is_coordinated=is_coordinated)
        driver.tell_what_was_found(moment.expected)
        if not is_first and broker.topics.get("__consumer_offsets") is not None:
            record.tell("groups_recovered", _known(committed(broker, GROUPS)))
        scenario = SCENARIOS[self._scenario]
        actions = [each for each in scenario if rng.random() < 0.8] or ["produce"]
        weights = [scenario[each] for each in actions]
        driver.create_topic()
        driver.is_uniform = self._scenario == "tails"
        steps = (1, 2) if driver.is_uniform else (4, STEPS)
        for action in rng.choices(actions, weights, k=rng.randint(*steps)):
            getattr(driver, action)()
        driver.close()
        record.drain()
        if rng.random() < 0.4:
            broker.stop()
        else:
            broker.kill()
        record.drain()
        file_ops.stop_recording()
        shutil.rmtree(path)
        return record

    def _moments(
        self, moment: _Moment, operations: list[Operation], events: list[Event]
    ) -> Iterator[int]:
        """Do one action after another; stop where the disk has changed or a client knows more."""
        remaining = iter(events)
        event = next(remaining, None)
        for at in range(len(operations) + 1):
            has_changed = at > 0 and operations[at - 1][0] in CHANGES
            if at > 0:
                moment.disk.apply(operations[at - 1])
            if has_changed:
                yield at
            knows_more = False
            while event is not None and event.place <= at:
                getattr(moment.expected, event.name)(*event.arguments, **event.named)
                knows_more = True
                event = next(remaining, None)
            if knows_more:
                yield at

    def _next(self, moment: _Moment, *, is_power_cut: bool) -> _Moment:
        expected = moment.expected.copy()
        if not is_power_cut:
            return _Moment(copy.deepcopy(moment.disk), expected)
        expected.power_cut()
        state = moment.disk.after_crash(Sampled(self._rng))
        return _Moment(Disk(self._folder, state), expected)

    def _look(self, moment: _Moment) -> Iterator[CrashState]:
        """Yield some of the states that a crash at this moment may leave."""
        rng = Random(self._rng.random())
        if rng.random() < 0.1:
            yield from self._check(moment, moment.disk.after_kill, is_power_cut=False)
        if rng.random() < 0.05:
            for state in each(moment.disk.after_crash, ENUMERATED_MAX):
                yield from self._check(moment, lambda state=state: state, is_power_cut=True)  # type: ignore[misc]
        else:
            yield from self._check(
                moment, lambda: moment.disk.after_crash(Sampled(rng)), is_power_cut=True
            )

    def _check(
        self, moment: _Moment, make: Callable[[], State], *, is_power_cut: bool
    ) -> Iterator[CrashState]:
        number = self._seed * STATES_PER_SEED + self._place
        self._place += 1
        state = make()
        if self._only is not None and number != self._only:
            return
        rng = Random(number)  # its own random choices: those of the others stay the same
        flip = None
        if rng.random() < SHARE:
            state, flip = flipped(state, moment.expected, rng)
        path = self._make(self._bug.state(state))
        found = start_and_check(
            path, moment.expected, self._loop, is_power_cut=is_power_cut, flip=flip
        )
        shutil.rmtree(path)
        if self._place % COLLECTED_EVERY == 0:
            gc.collect()
        yield CrashState(number, self._scenario, found.findings, found.lost_as_stated)

    def _make(self, state: State) -> Path:
        self._folders += 1
        path = self._folder / str(self._folders)
        path.mkdir()
        put(state, path)
        return path


def _topic_id(rng: Random) -> bytes:
    return b"\0" + rng.randbytes(15)


def _known(found: dict[str, int | None]) -> dict[str, int]:
    return {group: offset for group, offset in found.items() if offset is not None}
