"""Answers to failed logins are held back longer and longer."""

from broker.core.security.failures import FailureDelays
from broker.model.sasl_limits import (
    FAILURE_DELAY_MS_MAX,
    FAILURES_FORGOTTEN_MS,
    FAILURES_REMEMBERED_MAX,
)


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms


def test_each_one_is_held_back_twice_as_long_up_to_a_limit() -> None:
    delays = FailureDelays(Clock())

    found = [delays.next_ms("here", "alice", 100) for _ in range(9)]

    assert found == [100, 200, 400, 800, 1600, 3200, FAILURE_DELAY_MS_MAX] + 2 * [5_000]


def test_the_limit_is_50_times_the_setting_and_never_below_it() -> None:
    delays = FailureDelays(Clock())

    assert [delays.next_ms("here", "alice", 1) for _ in range(8)][-2:] == [50, 50]
    assert [delays.next_ms("here", "bob", 8_000) for _ in range(3)] == [8_000] * 3
    assert [delays.next_ms("here", "carol", 0) for _ in range(3)] == [0] * 3


def test_other_users_and_addresses_are_not_concerned() -> None:
    delays = FailureDelays(Clock())
    for _ in range(3):
        delays.next_ms("here", "alice", 100)

    assert delays.next_ms("here", "bob", 100) == 100
    assert delays.next_ms("there", "alice", 100) == 100
    assert delays.next_ms("here", "alice", 100) == 800


def test_addresses_of_one_network_of_ipv6_are_held_back_together() -> None:
    delays = FailureDelays(Clock())
    found = [delays.next_ms(f"2001:db8::{number}", "alice", 100) for number in range(3)]
    delays.forget("2001:db8::9", "alice")

    assert found == [100, 200, 400]
    assert delays.next_ms("2001:db8::1", "alice", 100) == 100
    assert delays.next_ms("2001:db8:0:1::", "alice", 100) == 100


def test_a_failure_without_a_user_is_held_back_as_the_first_one() -> None:
    delays = FailureDelays(Clock())

    assert [delays.next_ms("here", "", 100) for _ in range(3)] == [100] * 3


def test_time_and_a_login_end_it() -> None:
    clock = Clock()
    delays = FailureDelays(clock)
    delays.next_ms("here", "alice", 100)
    clock.ms += FAILURES_FORGOTTEN_MS - 1
    assert delays.next_ms("here", "alice", 100) == 200
    clock.ms += FAILURES_FORGOTTEN_MS
    assert delays.next_ms("here", "alice", 100) == 100
    assert delays.next_ms("here", "alice", 100) == 200

    delays.forget("here", "alice")
    delays.forget("here", "nobody")

    assert delays.next_ms("here", "alice", 100) == 100


def test_a_limited_number_is_remembered_and_the_oldest_forgotten() -> None:
    delays = FailureDelays(Clock())
    for number in range(FAILURES_REMEMBERED_MAX + 1):
        delays.next_ms("here", f"user {number}", 100)

    assert len(delays._last) == FAILURES_REMEMBERED_MAX
    assert delays.next_ms("here", f"user {FAILURES_REMEMBERED_MAX}", 100) == 200
    assert delays.next_ms("here", "user 0", 100) == 100
