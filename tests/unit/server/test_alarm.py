"""The alarm that wakes the coordinators."""

import asyncio

import pytest

from broker.model.limits import LOAD_RETRY_MS
from broker.server.coordinators import _Alarm
from tests.support.manual_clock import ManualClock


class Loop:
    """Records the timers that are set."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def call_later(self, delay: float, _callback: object) -> asyncio.TimerHandle | None:
        self.delays.append(delay)
        return None


def test_an_alarm_is_set_again_after_a_failed_tick() -> None:
    def tick() -> int:
        raise LookupError

    loop = Loop()
    alarm = _Alarm(loop, ManualClock(0), tick)  # type: ignore[arg-type]

    with pytest.raises(LookupError):
        alarm.ring()

    assert loop.delays == [LOAD_RETRY_MS / 1000]
