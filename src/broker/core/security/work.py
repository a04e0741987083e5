"""The thread of logins: what takes milliseconds per login is not computed on the loop.

Addresses take turns, so that one that has much to be computed delays its own logins. When too much
waits, there is no room for the last of whoever has most. Of IPv6 a network counts as one address.
"""

from asyncio import CancelledError, wrap_future
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

from broker.core.security.sasl.outcome import Outcome, Refused, Step, Work
from broker.model.address import origin
from broker.model.sasl_limits import LOGIN_WORK_WAITING_MAX

_NO_ROOM = Refused("too many logins wait")


class _Waiting(NamedTuple):
    """Work that has not begun, and who waits for it."""

    run: Callable[[], Outcome]
    done: "Future[Outcome]"


class LoginWork:
    """Derives keys and checks signatures, one after another, outside of the loop."""

    def __init__(self, waiting_max: int = LOGIN_WORK_WAITING_MAX) -> None:
        """Start without work; the thread starts with the first."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="broker-login")
        self._waiting_max = waiting_max
        self._lock = Lock()  # of the three below
        # What has not begun, by address; the address whose turn is next is the first.
        self._queues: dict[str, deque[_Waiting]] = {}
        self._count = 0
        self._is_running = False

    async def outcome(self, step: Step, address: str) -> Outcome:
        """Return the outcome of a step of a client; refused if too much work waits."""
        if not isinstance(step, Work):
            return step
        waiting = _Waiting(step.run, Future())
        address = origin(address)
        self._add(waiting, address)
        try:
            return await wrap_future(waiting.done)
        except CancelledError:  # its connection has closed
            self._remove(waiting, address)
            raise

    def stop(self) -> None:
        """Drop the work that has not begun, and end the thread."""
        with self._lock:
            dropped = [each for queue in self._queues.values() for each in queue]
            self._queues.clear()
            self._count = 0
        for each in dropped:
            each.done.cancel()
        self._executor.shutdown()

    def _add(self, waiting: _Waiting, address: str) -> None:
        refused = None
        with self._lock:
            self._queues.setdefault(address, deque()).append(waiting)
            self._count += 1
            if self._count > self._waiting_max:
                lengths = {each: len(queue) for each, queue in self._queues.items()}
                longest = max(lengths, key=lambda each: (lengths[each], each == address))
                refused = self._queues[longest][-1]
                self._take(refused, longest)
            begins = not self._is_running
            self._is_running = True
        if refused is not None and refused.done.set_running_or_notify_cancel():
            refused.done.set_result(_NO_ROOM)
        if begins:
            self._executor.submit(self._run)

    def _remove(self, waiting: _Waiting, address: str) -> None:
        with self._lock:
            if waiting in self._queues.get(address, ()):
                self._take(waiting, address)

    def _take(self, waiting: _Waiting, address: str) -> None:
        queue = self._queues[address]
        queue.remove(waiting)
        self._count -= 1
        if not queue:
            del self._queues[address]

    def _next(self) -> _Waiting | None:
        with self._lock:
            for address, queue in self._queues.items():
                waiting = queue[0]
                self._take(waiting, address)
                if queue:
                    self._queues[address] = self._queues.pop(address)  # the last one now
                return waiting
            self._is_running = False
            return None

    def _run(self) -> None:
        """Run the work of all, in the thread."""
        while (waiting := self._next()) is not None:
            if not waiting.done.set_running_or_notify_cancel():
                continue
            try:
                waiting.done.set_result(waiting.run())
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                waiting.done.set_exception(error)
