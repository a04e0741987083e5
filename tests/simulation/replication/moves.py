"""Logs move between the two directories of their broker while everything else goes on.

    begun       at any time, of a leader or a follower; again by the next process, as soon as it has
                opened the log, if it has not ended
    steps       a small piece each, at the pace of the move, so that the log is cut, begun anew,
                dropped, or fails between them
    switched    when the log is written no more for a moment; the process may end within it, before
                any operation on files
    removed     the old folder, some ms later

Syncs are not waited for within a switch: it is tried again. The draws are its own, so that a
history without moves is the same as before there were any.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from broker._native.kernel import file_ops
from broker.core.cluster.writes import Item
from broker.model.errors import DiskFull
from broker.storage.files import deletion, folder_copy
from broker.storage.files.folder_copy import FolderCopy
from tests.simulation.draws import Draws
from tests.simulation.replication.storage import TOPIC

if TYPE_CHECKING:
    from tests.simulation.replication.broker import ReplicatedBroker
    from tests.simulation.replication.run import ReplicationSimulation

FIRST_MS = 2_000
LOOK_MS = 10
RATE = 0.25  # of histories with moves
END_RATE = 0.2  # of switches in which the process ends
OPERATIONS = 40  # about as many as a switch has
STEP_BYTES = 1_500


class _EndedError(Exception):
    """The process has ended."""


class _Operations:
    """The operations on files, of which only some are carried out."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __getattr__(self, name: str) -> Any:
        if self._left == 0:
            raise _EndedError
        self._left -= 1
        return getattr(file_ops, name)


class _Move:
    """A move, and how long its steps take at most."""

    __slots__ = ("broker", "copy", "item", "pace_ms")

    def __init__(
        self, broker: "ReplicatedBroker", item: Item, copy: FolderCopy, pace_ms: int
    ) -> None:
        self.broker = broker
        self.item = item
        self.copy = copy
        self.pace_ms = pace_ms


class Moves:
    """The moves in one history.

    Attributes:
        moved_count: how many logs have moved.
        cut_count: how often one was cut of which something was copied.
        ended_count: how often a process has ended within a switch.
    """

    def __init__(self, sim: "ReplicationSimulation", seed: int) -> None:
        """Draw whether there are any; they begin with `begin`."""
        self._sim = sim
        self._rng = Draws(seed + 2)
        self.are_drawn = self._rng.random() < RATE
        self._moving: set[tuple[str, Item]] = set()  # by process
        self.moved_count = self.cut_count = self.ended_count = 0

    def begin(self) -> None:
        """Move logs, once there is a topic."""
        self._sim.time.after(FIRST_MS, self._move)
        self._sim.time.after(FIRST_MS, self._look)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Let steps be small, and names of copies be the same in each run of a seed."""
        with patch.multiple(
            folder_copy,
            MOVE_STEP_BYTES=STEP_BYTES,
            MOVE_SYNC_BYTES=4 * STEP_BYTES,
            MOVE_LOOKS_MAX=0,
            random_id=lambda: self._rng.randbytes(16),
        ):
            yield

    def _move(self) -> None:
        sim, rng = self._sim, self._rng
        if sim.is_ending:
            return
        sim.time.after(rng.randrange(20, 400), self._move)
        running = [each for each in sim.brokers if each.process.is_running and each.logs]
        if running:
            broker = rng.choice(running)
            self._begin(broker, rng.choice(sorted(broker.logs)))

    def _look(self) -> None:
        """Begin the moves again that have not ended, of logs that are open by now."""
        if self._sim.is_ending:
            return
        self._sim.time.after(LOOK_MS, self._look)
        for broker in self._sim.brokers:
            unfinished = broker.storage.unfinished
            for item in sorted(broker.logs) if unfinished else ():
                is_there = broker.process.is_running and broker.logs[item].is_in_service
                if is_there and unfinished.pop(f"{TOPIC}-{item[1]}", None):
                    self._begin(broker, item)

    def _begin(self, broker: "ReplicatedBroker", item: Item) -> None:
        log = broker.logs[item]
        if (broker.name, item) in self._moving or not log.is_in_service:
            return
        self._moving.add((broker.name, item))
        self._sim.note(f"{broker.name}: {item} begins to move")
        pace_ms = self._rng.choice((5, 50, 500, 2_000))
        self._later(_Move(broker, item, broker.storage.begin_move(log), pace_ms))

    def _later(self, move: _Move) -> None:
        # In the end, nothing waits for long.
        delay_ms = self._rng.randrange(1, 20 if self._sim.is_ending else move.pace_ms)
        self._sim.time.after(delay_ms, partial(self._step, move))

    def _step(self, move: _Move) -> None:
        broker, copy, log = move.broker, move.copy, move.copy.log
        if not broker.process.is_alive:
            return
        if not broker.process.is_running:
            self._later(move)
            return
        if log.is_offline or log.is_deleted:
            self._moving.discard((broker.name, move.item))
            deletion.remove_folder(copy.folder)
            return
        if copy.is_disturbed and copy.size and not log.is_loading:
            self.cut_count += 1
            self._sim.note(f"{broker.name}: {move.item} was cut while it moves")
        try:
            is_ready = copy.step() is None and not log.is_loading
        except DiskFull:
            is_ready = False
        if is_ready:
            self._switch(move)
        else:
            self._later(move)

    def _switch(self, move: _Move) -> None:
        sim, rng, broker, copy = self._sim, self._rng, move.broker, move.copy
        is_ending = sim.is_faulty and rng.random() < END_RATE
        left = rng.randrange(OPERATIONS) if is_ending else -1
        is_switched = False

        def switch() -> None:
            nonlocal is_switched
            with suppress(DiskFull):
                is_switched = broker.storage.switch(copy)

        try:
            with patch.object(folder_copy, "file_ops", _Operations(left)):
                broker.process.run(partial(broker.step, switch))
        except _EndedError:
            self.ended_count += 1
            sim.note(f"{broker.name} ends while {move.item} is switched")
            sim.replace(broker, "kill" if sim.is_os else rng.choice(("kill", "power cut")))
            return
        if not is_switched:
            self._later(move)
            return
        self.moved_count += 1
        self._moving.discard((broker.name, move.item))
        sim.note(f"{broker.name}: {move.item} has moved")
        sim.time.after(rng.choice((1, 50, 1_000)), partial(self._remove, move))

    @staticmethod
    def _remove(move: _Move) -> None:
        if move.broker.process.is_alive:
            deletion.remove_folder(move.copy.left)
