"""Writes the stacks of all threads when the loop does not run for a time.

A C thread of faulthandler waits for that time, and the loop puts it off every second. It needs no
interpreter lock, so the stacks are written even if native code keeps it. They have files, lines and
names of functions, no values. They are written once per stall, directly to stderr, since what hangs
may hold a lock of the log; once the loop runs again, a line of the log says how long it has hung.
"""

import asyncio
import faulthandler
import logging
import sys
from collections.abc import Callable
from typing import Final

from broker.core.service import Service

_log = logging.getLogger(__name__)
_PUT_OFF_SECONDS: Final = 1.0


class StallWatch(Service):
    """Watches the loop from outside."""

    name = "stall watch"

    def __init__(self, seconds: int, monotonic: Callable[[], float]) -> None:
        """Write stacks after so many seconds; 0: never."""
        self._seconds = seconds
        self._monotonic = monotonic

    async def run(self) -> None:
        """Put off the dump while the loop runs; runs until cancelled."""
        if not self._seconds:
            return
        seen = self._monotonic()
        try:
            while True:
                faulthandler.dump_traceback_later(self._seconds, file=sys.stderr)
                await asyncio.sleep(min(_PUT_OFF_SECONDS, self._seconds / 2))
                now = self._monotonic()
                if now - seen > self._seconds:
                    _log.error(
                        "the loop has stalled, stacks are in stderr: seconds=%.1f", now - seen
                    )
                seen = now
        finally:
            faulthandler.cancel_dump_traceback_later()
