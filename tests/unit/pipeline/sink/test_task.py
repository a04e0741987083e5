"""The rate limit of a task's writes."""

from broker.pipeline.sink.task import RateLimiter
from tests.support.manual_clock import ManualClock


def test_a_task_waits_for_the_time_that_its_earlier_rows_require() -> None:
    clock = ManualClock()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(round(seconds * 1000))

    pace = RateLimiter(1_000, clock, sleep)
    pace.spend(500)
    pace.spend(500)
    clock.advance(2_000)
    pace.spend(500)

    assert slept == [0.5]


def test_a_task_without_a_limit_never_waits() -> None:
    def sleep(_: float) -> None:
        raise AssertionError("waits")

    pace = RateLimiter(None, ManualClock(), sleep)
    pace.spend(1 << 40)
    pace.spend(1)
