"""Recovers logs in threads while the event loop serves those that are ready.

    start(logs) ── waiting ──> threads: load(log) ── recovered ──> one of them: settle(logs)
        ── settled ──> loop: the log is published

A recovered log waits for RECOVERED_WAIT_MS at most, so that many logs share one sync. A log belongs
to a thread from `start` until it is published; until then others may only read `is_loading`.
Internal topics are loaded first, because groups wait for them, the others in the order of the
store: their sizes are unknown before each is opened, and a long tail occupies one thread only.
"""

import logging
import sys
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock, Thread
from typing import Generic, Protocol, TypeVar

from broker.model.limits import (
    LOADING_SWITCH_SECONDS,
    RECOVERED_LOGS_MAX,
    RECOVERED_WAIT_MS,
)

_log = logging.getLogger(__name__)


class LoadingLog(Protocol):
    """A log that can be loaded."""

    @property
    def is_loading(self) -> bool:
        """Whether it belongs to a thread."""

    def end_loading(self) -> None:
        """Put it into service."""

    def take_offline(self, reason: str) -> None:
        """Refuse all requests, because its files cannot be used."""


LogT = TypeVar("LogT", bound=LoadingLog)


class LogFiles(Protocol[LogT]):
    """The files of logs; both methods are called in threads, and return errors, if any."""

    def load(self, log: LogT, /) -> str | None:
        """Recover a log from its files."""

    def settle(self, logs: list[LogT], /) -> dict[LogT, str]:
        """Make the recovery of these logs durable."""


class LogLoader(Generic[LogT]):
    """The logs of one start, until all of them are ready."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        files: LogFiles[LogT],
    ) -> None:
        """Keep what it needs; nothing is loaded yet."""
        self._loop = loop
        self._files = files
        self._before_ready: list[Callable[[LogT], None]] = []
        self._on_ready: list[Callable[[LogT], None]] = []
        self._waiting: deque[LogT] = deque()
        self._working = 0  # threads that may still take a waiting log
        self._taking = Lock()
        self._recovered: deque[tuple[LogT, str | None]] = deque()
        self._settling = Lock()
        self._settled_at = 0.0
        self._settled: deque[tuple[LogT, str | None]] = deque()
        self._is_scheduled = False  # a call of `_publish` is pending
        self._left = 0
        self._offline = 0
        self._started = 0.0
        self._threads: list[Thread] = []
        self._askers: list[Future[None]] = []
        self._switch_interval = sys.getswitchinterval()

    def before_ready(self, callback: Callable[[LogT], None]) -> None:
        """Register a callback that gets each log, in the loop, before it serves anything."""
        self._before_ready.append(callback)

    def when_ready(self, callback: Callable[[LogT], None]) -> None:
        """Register a callback that gets each log, in the loop, once it is published."""
        self._on_ready.append(callback)

    def start(self, logs: Iterable[LogT], threads_max: int) -> None:
        """Load these logs, after those that wait already, in at most so many threads."""
        added = list(logs)
        if self._left == 0:
            self._offline = 0
            self._started = self._settled_at = self._loop.time()
        self._left += len(added)
        with self._taking:
            self._waiting.extend(added)
            count = min(threads_max - self._working, len(added))
            self._working += max(count, 0)
        if count <= 0:
            return
        _log.info("loading partitions: count=%d threads=%d", self._left, count)
        # While the loop is busy, a thread waits for the interpreter lock after each of a log's many
        # short file operations: 5 ms by default.
        sys.setswitchinterval(LOADING_SWITCH_SECONDS)
        new = [Thread(target=self._work, name=f"broker-load-{number}") for number in range(count)]
        self._threads = [*(thread for thread in self._threads if thread.is_alive()), *new]
        for thread in new:
            thread.start()

    async def until_loaded(self, logs: Iterable[LogT]) -> None:
        """Wait until none of these logs is being loaded."""
        for log in logs:
            while log.is_loading:
                await self._woken()

    async def until_all_loaded(self) -> None:
        """Wait until no log is left to be loaded."""
        while self._left:
            await self._woken()

    async def _woken(self) -> None:
        asker: Future[None] = self._loop.create_future()
        self._askers.append(asker)
        await asker

    def wake(self) -> None:
        """Let those look again who wait until logs are loaded."""
        askers, self._askers = self._askers, []
        for asker in askers:
            if not asker.done():
                asker.set_result(None)

    def stop(self) -> None:
        """Begin no more loads; wait for those under way, and publish them."""
        with self._taking:
            self._waiting.clear()
        for thread in self._threads:
            thread.join()
        sys.setswitchinterval(self._switch_interval)
        self._publish()
        for asker in self._askers:
            asker.cancel()

    def _work(self) -> None:
        while (log := self._take()) is not None:
            try:
                error = self._files.load(log)
            except Exception as unexpected:  # noqa: BLE001 (it must not end the thread)
                _log.exception("log cannot be loaded: log=%r", log)
                error = str(unexpected)
            self._recovered.append((log, error))
            self._settle_some()
        with self._settling:  # what was recovered while another thread was settling
            self._settle_all()

    def _take(self) -> LogT | None:
        """Return the next log; None ends the thread: what is added later gets another one."""
        with self._taking:
            if self._waiting:
                return self._waiting.popleft()
            self._working -= 1
            return None

    def _settle_some(self) -> None:
        waited = self._loop.time() - self._settled_at
        if waited * 1000 < RECOVERED_WAIT_MS and len(self._recovered) < RECOVERED_LOGS_MAX:
            return
        if self._settling.acquire(blocking=len(self._recovered) >= 2 * RECOVERED_LOGS_MAX):
            try:
                self._settle_all()
            finally:
                self._settling.release()

    def _settle_all(self) -> None:
        recovered = [self._recovered.popleft() for _ in range(len(self._recovered))]
        if not recovered:
            return
        failed = self._files.settle([log for log, error in recovered if error is None])
        self._settled.extend((log, error or failed.get(log)) for log, error in recovered)
        self._settled_at = self._loop.time()
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._publish)

    def _publish(self) -> None:
        self._is_scheduled = False  # what is settled from here on schedules another call
        if not self._settled:
            return
        while self._settled:
            log, error = self._settled.popleft()
            if error is not None:
                self._offline += 1
                log.take_offline(error)
            for prepare in self._before_ready:
                prepare(log)
            log.end_loading()
            self._left -= 1
            for callback in self._on_ready:
                callback(log)
        self.wake()
        if self._left == 0:
            sys.setswitchinterval(self._switch_interval)
            seconds = self._loop.time() - self._started
            _log.info("all partitions loaded: offline=%d seconds=%.3f", self._offline, seconds)
