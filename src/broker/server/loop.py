"""The event loop: a limit on the time that callbacks and tasks take between two socket polls.

asyncio runs everything that is ready before it polls the sockets again. The end of a rebalance
makes a thousand callbacks ready, and a hundred long responses a step each: together they would
delay all acknowledgements. Here the rest waits, in order, until the sockets have been polled.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple, Unpack

import uvloop

from broker.model.clock import monotonic_ns
from broker.model.limits import PYTHON_SHARE_US

_Ts = TypeVarTuple("_Ts")


class Loop(uvloop.Loop):
    """uvloop's loop, with a bound on the callbacks between two polls."""

    def __init__(self) -> None:
        """Start without callbacks."""
        super().__init__()
        self.now_ns = monotonic_ns
        self._waiting: deque[asyncio.Handle] = deque()
        self._is_asked = False

    def call_soon(
        self,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call back in the next turn, or as soon as all earlier callbacks have run."""
        handle = asyncio.Handle(callback, args, self, context)
        self._waiting.append(handle)
        if not self._is_asked:
            self._is_asked = True
            super().call_soon(self._run_some)
        return handle

    def call_next(self, callback: Callable[[], object]) -> None:
        """Call back in the next turn, before all waiting callbacks."""
        super().call_soon(callback)

    def _run_some(self) -> None:
        waiting, now_ns = self._waiting, self.now_ns
        ends_ns = now_ns() + PYTHON_SHARE_US * 1_000
        try:
            for _ in range(len(waiting)):  # callbacks added meanwhile run in the next turn
                handle = waiting.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001 (what asyncio's own loops call)
                # A traceback that the callback's task keeps may refer to this frame: no cycle.
                del handle
                if now_ns() >= ends_ns:
                    break
        finally:
            if waiting:
                super().call_soon(self._run_some)
            else:
                self._is_asked = False
