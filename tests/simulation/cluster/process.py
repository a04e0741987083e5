"""A process: it can be stopped for a while, and killed at any moment."""

from collections.abc import Callable
from functools import partial

from tests.simulation.virtual_time import VirtualTime


class Process:
    """Callbacks that run only while the process does.

    The monotonic clock goes on while the process is stopped.
    """

    def __init__(self, time: VirtualTime, clock_ahead_ms: int) -> None:
        self.is_alive = True
        self.time = time
        self._clock_ahead_ms = clock_ahead_ms
        self._is_stopped = False
        self._due: list[Callable[[], None]] = []
        self._at_death: list[Callable[[], None]] = []

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self._is_stopped

    def now_ms(self) -> int:
        """Return the monotonic clock of the process's machine."""
        return self.time.now_ms + self._clock_ahead_ms

    def now(self) -> float:
        """Return the same in seconds."""
        return self.now_ms() / 1_000

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call back after a delay, or when the process runs again."""
        self.time.after(delay_ms, partial(self.run, callback))

    def run(self, callback: Callable[[], None]) -> None:
        """Call back now, or when the process runs again, unless it has been killed."""
        if not self.is_alive:
            return
        if self._is_stopped:
            self._due.append(callback)
        else:
            callback()

    def stop(self) -> None:
        """Send SIGSTOP."""
        self._is_stopped = True

    def resume(self) -> None:
        """Send SIGCONT."""
        self._is_stopped = False
        due, self._due = self._due, []
        for callback in due:
            self.run(callback)

    def at_death(self, callback: Callable[[], None]) -> None:
        """Call back when the process ends, whether or not it is stopped."""
        self._at_death.append(callback)

    def kill(self) -> None:
        if self.is_alive:
            self.is_alive = False
            for callback in self._at_death:
                callback()
