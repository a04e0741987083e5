"""The timer wheel, called by its C types: which timers are due, and the next wakeup."""

import ctypes
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.wire import timer_wheel

SLOTS = 1024  # of one millisecond


class Timer(ctypes.Structure):
    """The struct of timer_wheel.pxd."""


Timer._fields_ = [
    ("next", ctypes.POINTER(Timer)),
    ("previous", ctypes.POINTER(Timer)),
    ("deadline_ms", ctypes.c_int64),
    ("is_set", ctypes.c_int),
    ("owner", ctypes.c_void_p),
]


class TimerWheel(ctypes.Structure):
    """The struct of timer_wheel.pxd."""


TimerWheel._fields_ = [
    ("slots", Timer * SLOTS),
    ("hand_ms", ctypes.c_int64),
    ("earliest_ms", ctypes.c_int64),
    ("count", ctypes.c_int),
]
WHEEL, TIMER, INT64 = ctypes.POINTER(TimerWheel), ctypes.POINTER(Timer), ctypes.c_int64


def c_function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of timer_wheel.pxd."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = timer_wheel.__pyx_capi__[name]
    return ctypes.CFUNCTYPE(result, *arguments)(get_pointer(capsule, get_name(capsule)))


wheel_init = c_function("wheel_init", None, WHEEL, INT64)
wheel_set = c_function("wheel_set", None, WHEEL, TIMER, INT64)
wheel_clear = c_function("wheel_clear", None, WHEEL, TIMER)
wheel_due = c_function("wheel_due", TIMER, WHEEL, INT64)
wheel_next = c_function("wheel_next", INT64, WHEEL)


class Wheel:
    """A wheel and timers by number; `owner` holds the number, from 1."""

    def __init__(self, now_ms: int, count: int) -> None:
        """Start the wheel at a time, with timers that are not set."""
        self.wheel = TimerWheel()
        wheel_init(self.wheel, now_ms)
        self.timers = [Timer(owner=number + 1) for number in range(count)]

    def set(self, number: int, deadline_ms: int) -> None:
        """Set a timer, also if it is set."""
        self.clear(number)
        wheel_set(self.wheel, self.timers[number], deadline_ms)

    def clear(self, number: int) -> None:
        """Clear a timer, whether it is set or not."""
        wheel_clear(self.wheel, self.timers[number])

    def due(self, now_ms: int) -> list[int]:
        """Take all due timers."""
        found = []
        while timer := wheel_due(self.wheel, now_ms):
            found.append(timer.contents.owner - 1)
        return found

    @property
    def next_ms(self) -> int:
        """Return the next wakeup."""
        return int(wheel_next(self.wheel))


def test_a_timer_is_due_once_at_its_deadline() -> None:
    wheel = Wheel(1000, 1)
    wheel.set(0, 1005)

    assert wheel.due(1004) == []
    assert wheel.due(1005) == [0]
    assert wheel.due(1006) == []


def test_a_cleared_timer_is_not_due() -> None:
    wheel = Wheel(1000, 2)
    wheel.set(0, 1005)
    wheel.set(1, 1005)

    wheel.clear(0)
    wheel.clear(0)

    assert wheel.due(2000) == [1]


def test_a_deadline_that_has_passed_is_due_at_once() -> None:
    wheel = Wheel(1000, 1)
    wheel.set(0, 7)

    assert wheel.due(1000) == [0]


def test_a_deadline_beyond_the_wheels_span_takes_several_revolutions() -> None:
    wheel = Wheel(0, 1)
    wheel.set(0, 5 * SLOTS + 3)

    assert [now for now in range(0, 6 * SLOTS, 100) if wheel.due(now)] == [5200]


def test_after_a_long_sleep_every_passed_deadline_is_due() -> None:
    wheel = Wheel(0, 50)
    for number in range(50):
        wheel.set(number, 100 * number)

    assert sorted(wheel.due(10**9)) == list(range(50))


def test_an_empty_wheel_has_no_next_deadline() -> None:
    wheel = Wheel(0, 1)
    assert wheel.next_ms == -1

    wheel.set(0, 10)
    wheel.due(10)

    assert wheel.next_ms == -1


def test_the_next_wakeup_is_the_earliest_deadline_or_the_end_of_the_wheel() -> None:
    wheel = Wheel(500, 2)
    wheel.set(0, 500 + 3 * SLOTS)
    assert wheel.next_ms == 500 + SLOTS

    wheel.set(1, 700)

    assert wheel.next_ms == 700


steps = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 7), st.integers(-5, 3000)),
    st.tuples(st.just("clear"), st.integers(0, 7), st.just(0)),
    st.tuples(st.just("wait"), st.just(0), st.sampled_from([0, 1, 7, 300, 1023, 1024, 5000])),
)


@given(st.integers(0, 10**6), st.lists(steps, max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_sequence_of_operations_equals_a_dictionarys(
    now_ms: int, taken: list[tuple[str, int, int]]
) -> None:
    wheel = Wheel(now_ms, 8)
    deadlines: dict[int, int] = {}

    for step, number, value in taken:
        if step == "set":
            wheel.set(number, now_ms + value)
            deadlines[number] = now_ms + value
        elif step == "clear":
            wheel.clear(number)
            deadlines.pop(number, None)
        else:
            now_ms += value
            due = {number for number, deadline in deadlines.items() if deadline <= now_ms}
            assert set(wheel.due(now_ms)) == due
            for over in due:
                del deadlines[over]
        if deadlines:
            assert wheel.next_ms <= max(now_ms + SLOTS, min(deadlines.values()))
        assert (wheel.next_ms == -1) == (not deadlines)
