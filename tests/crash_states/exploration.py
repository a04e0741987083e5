"""Runs on one disk, and every crash of them that is checked: the states of one seed.

A state is identified by its seed and its own number, so one of them can be checked again.
"""

import asyncio
import copy
import gc
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Generic, NamedTuple, Protocol, Self, TypeVar
from unittest.mock import patch

from broker._native.kernel import file_ops
from broker.core.maintenance import cleaner
from broker.core.topics import topics
from tests.crash_states.broker_run import compacting_here
from tests.crash_states.choices import Sampled, each
from tests.crash_states.disk import Disk, Operation, State, put
from tests.crash_states.finding import Finding, Outcome
from tests.crash_states.record import Event, Record

LIVES = 3
STATES_PER_SEED = 1 << 20  # more than a run has: a state's number is seed * this + index
COLLECTED_EVERY = 256  # runs are reference cycles and hold descriptors
ENUMERATED_MAX = 24  # states of one moment that are all checked
CHANGES = {
    "open", "write", "allocate", "truncate", "sync_data", "sync", "sync_folder",
    "sync_filesystem", "rename", "remove", "make_folder", "commit", "end_sync",
}  # fmt: skip


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


class Expected(Protocol):
    """What the clients know; the events of a run are calls of its methods."""

    def copy(self) -> Self:
        """Return one that changes on its own."""

    def power_cut(self) -> None:
        """What only the page cache had is no longer guaranteed."""


_E = TypeVar("_E", bound=Expected)


class Moment(NamedTuple, Generic[_E]):
    """The state in which the next run begins."""

    disk: Disk
    expected: _E


class Place(NamedTuple):
    """Where the runs of a seed are: an empty folder, and their loop."""

    folder: Path
    loop: asyncio.AbstractEventLoop


@contextmanager
def exploring(seed: int, bug: Bug) -> Iterator[Place]:
    """Prepare for the runs of one seed."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    loop = asyncio.new_event_loop()
    try:
        with (
            patch.object(cleaner, "compacting", compacting_here),
            patch.object(topics, "random_id", partial(_topic_id, Random(seed))),
            bug.patched(),
        ):
            yield Place(folder, loop)
    finally:
        file_ops.stop_recording()
        loop.close()
        shutil.rmtree(folder)


class Exploration(ABC, Generic[_E]):
    """All runs of a seed."""

    scenario: str

    def __init__(self, seed: int, bug: Bug, place: Place, only: int | None = None) -> None:
        """Begin; `only`: the number of the one state that is checked."""
        self.seed = seed
        self.loop = place.loop
        self._bug = bug
        self._folder = place.folder
        self._only = only
        self._rng = Random(seed)
        self._place = 0
        self._folders = 0

    @abstractmethod
    def live(self, path: Path, record: Record, rng: Random, expected: _E) -> None:
        """Run once in a folder; tell the record what the clients are told."""

    @abstractmethod
    def check(self, state: State, expected: _E, rng: Random, *, is_power_cut: bool) -> Outcome:
        """Start on a state, in a folder of `made`."""

    @contextmanager
    def made(self, state: State) -> Iterator[Path]:
        """Make the files of a state."""
        path = self._make(self._bug.state(state))
        yield path
        shutil.rmtree(path)

    def states(self, state: State | None, expected: _E) -> Iterator[CrashState]:
        """Check states of all runs; the first run begins with the files of a state."""
        moment = Moment(Disk(self._folder, state), expected)
        is_power_cut = False
        for _ in range(LIVES):
            record = self._live(moment)
            operations = self._bug.operations(record.operations)
            crash = self._rng.randrange(len(operations) * 2)  # half of them: after the last moment
            following: list[Moment[_E]] = []
            is_power_cut = self._rng.random() < 0.6
            for at in self._moments(moment, operations, record.events):
                if not following and at >= min(crash, len(operations)):
                    following.append(self._next(moment, is_power_cut=is_power_cut))
                yield from self._look(moment)
            moment = following[0] if following else moment

    def _live(self, moment: Moment[_E]) -> Record:
        """Record a run that begins there."""
        path = self._make(moment.disk.after_kill())
        moment.disk.move(path)
        rng = Random(self._rng.random())
        record = Record(path)
        file_ops.start_recording()
        self.live(path, record, rng, moment.expected)
        record.drain()
        file_ops.stop_recording()
        shutil.rmtree(path)
        return record

    def _moments(
        self, moment: Moment[_E], operations: list[Operation], events: list[Event]
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

    def _next(self, moment: Moment[_E], *, is_power_cut: bool) -> Moment[_E]:
        expected = moment.expected.copy()
        if not is_power_cut:
            return Moment(copy.deepcopy(moment.disk), expected)
        expected.power_cut()
        state = moment.disk.after_crash(Sampled(self._rng))
        return Moment(Disk(self._folder, state), expected)

    def _look(self, moment: Moment[_E]) -> Iterator[CrashState]:
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
        self, moment: Moment[_E], make: Callable[[], State], *, is_power_cut: bool
    ) -> Iterator[CrashState]:
        number = self.seed * STATES_PER_SEED + self._place
        self._place += 1
        state = make()
        if self._only is not None and number != self._only:
            return
        rng = Random(number)  # its own random choices: those of the others stay the same
        found = self.check(state, moment.expected, rng, is_power_cut=is_power_cut)
        if self._place % COLLECTED_EVERY == 0:
            gc.collect()
        yield CrashState(number, self.scenario, found.findings, found.lost_as_stated)

    def _make(self, state: State) -> Path:
        self._folders += 1
        path = self._folder / str(self._folders)
        path.mkdir()
        put(state, path)
        return path


def _topic_id(rng: Random) -> bytes:
    return b"\0" + rng.randbytes(15)
