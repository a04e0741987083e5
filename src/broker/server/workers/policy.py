"""When workers are restarted and when all of them end; pure, with the time as an argument.

    a worker ends                            what follows
    before all were ready for the first time all end
    later, after it has run for a while      it is started again at once
    later, soon after its start              it is started again after a pause that doubles
    so for the WORKER_FAILURES_MAX-th time   all end

A stop asks all workers to end; those that have not within WORKERS_STOP_SECONDS are killed.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from broker.model.limits import (
    WORKER_FAILED_SECONDS,
    WORKER_FAILURES_MAX,
    WORKER_PAUSE_SECONDS,
    WORKER_PAUSE_SECONDS_MAX,
    WORKERS_STOP_SECONDS,
)

EXIT_FAILED = 1


class Start(NamedTuple):
    """Start a worker."""

    place: int


class Stop(NamedTuple):
    """Ask a worker to stop."""

    place: int


class Kill(NamedTuple):
    """Kill a worker."""

    place: int


class Announce(NamedTuple):
    """All workers are ready for the first time."""


class Exit(NamedTuple):
    """No worker runs any more."""

    code: int


Action: TypeAlias = Start | Stop | Kill | Announce | Exit


class _State(Enum):
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"  # to be started again
    ENDED = "ended"


class _Worker:
    """One worker, in all of its processes."""

    __slots__ = ("failures", "started", "state", "until")

    def __init__(self) -> None:
        self.state = _State.ENDED
        self.started = 0.0
        self.until = 0.0  # when it is started again
        self.failures = 0  # in a row

    @property
    def is_running(self) -> bool:
        return self.state in (_State.STARTING, _State.READY)


class Policy:
    """The decisions of a supervisor. Times are seconds of a monotonic clock."""

    def __init__(self, node_ids: Sequence[int]) -> None:
        """Begin with these workers, each known by its place, none of which runs."""
        self._node_ids = node_ids
        self._workers = [_Worker() for _ in node_ids]
        self._is_announced = False
        self._kill_at: float | None = None  # while a stop is under way
        self._exit_code = 0
        self.reason = ""  # why all end, if nobody has asked for it

    def begin(self, now: float) -> list[Action]:
        """Start all workers."""
        return [self._start(place, now) for place in range(len(self._workers))]

    def ready(self, place: int) -> list[Action]:
        """Note that a worker serves clients."""
        worker = self._workers[place]
        if worker.state is _State.STARTING:
            worker.state = _State.READY
        if self._is_announced or any(each.state is not _State.READY for each in self._workers):
            return []
        self._is_announced = True
        return [Announce()]

    def ended(self, place: int, exit_code: int, now: float) -> list[Action]:
        """Note that a worker has ended; a negative code is the signal that has ended it."""
        worker = self._workers[place]
        worker.state = _State.ENDED
        if self._kill_at is not None:
            self._note_exit(exit_code)
            return self._exits()
        if not self._is_announced:
            self.reason = f"worker {self._node_ids[place]} has not started"
            return self._end(exit_code, now)
        has_failed = now - worker.started < WORKER_FAILED_SECONDS
        worker.failures = worker.failures + 1 if has_failed else 0
        if worker.failures >= WORKER_FAILURES_MAX:
            self.reason = (
                f"worker {self._node_ids[place]} has ended {worker.failures} times in a row"
                f" within {WORKER_FAILED_SECONDS} s of its start"
            )
            return self._end(exit_code, now)
        worker.state = _State.WAITING
        worker.until = now + _pause(worker.failures)
        return self.tick(now)

    def stop(self, now: float) -> list[Action]:
        """End all workers, as a signal asks for; the second time at once."""
        if self._kill_at is not None:
            return [Kill(place) for place, each in enumerate(self._workers) if each.is_running]
        return self._begin_stop(now)

    def tick(self, now: float) -> list[Action]:
        """Do what is due; call at `due`."""
        if self._kill_at is not None:
            if now < self._kill_at:
                return []
            self._kill_at = now + WORKERS_STOP_SECONDS
            self._note_exit(EXIT_FAILED)
            return [Kill(place) for place, each in enumerate(self._workers) if each.is_running]
        return [
            self._start(place, now)
            for place, each in enumerate(self._workers)
            if each.state is _State.WAITING and each.until <= now
        ]

    @property
    def due(self) -> float | None:
        """When to call `tick` next; None: not before another call."""
        if self._kill_at is not None:
            return self._kill_at
        waiting = [each.until for each in self._workers if each.state is _State.WAITING]
        return min(waiting, default=None)

    def _start(self, place: int, now: float) -> Start:
        worker = self._workers[place]
        worker.state, worker.started = _State.STARTING, now
        return Start(place)

    def _end(self, exit_code: int, now: float) -> list[Action]:
        self._exit_code = exit_code if exit_code > 0 else EXIT_FAILED
        return self._begin_stop(now)

    def _begin_stop(self, now: float) -> list[Action]:
        self._kill_at = now + WORKERS_STOP_SECONDS
        stops: list[Action] = []
        for place, worker in enumerate(self._workers):
            if worker.is_running:
                stops.append(Stop(place))
            worker.state = worker.state if worker.is_running else _State.ENDED
        return stops + self._exits()

    def _note_exit(self, exit_code: int) -> None:
        if self._exit_code == 0 and exit_code != 0:
            self._exit_code = exit_code if exit_code > 0 else EXIT_FAILED

    def _exits(self) -> list[Action]:
        if any(each.is_running for each in self._workers):
            return []
        return [Exit(self._exit_code)]


def _pause(failures: int) -> float:
    """Return the seconds before a restart; none after the first failure."""
    if failures <= 1:
        return 0.0
    return float(min(WORKER_PAUSE_SECONDS * 2 ** (failures - 2), WORKER_PAUSE_SECONDS_MAX))
