"""Connections that have not logged in: their number and their time."""

from types import SimpleNamespace
from typing import Any, cast

from broker.server.waiting_logins import WaitingLogins


class FakeLoop:
    """A clock, and the one call that is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: tuple[float, Any] | None = None

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any) -> object:
        self.due = (when, call)
        return self

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self.due is not None and self.due[0] <= self.now:
            _, call = self.due
            self.due = None
            call()


class FakeConnection:
    """A connection that has logged in or not."""

    def __init__(self, peer_host: str = "here") -> None:
        self.peer_host = peer_host
        self.needs_login = True
        self.session = SimpleNamespace(is_identified=False)
        self.reason = ""

    def abort(self, reason: str) -> None:
        self.reason = reason


def waiting(waiting_max: int = 10) -> tuple[FakeLoop, Any]:
    loop = FakeLoop()
    return loop, cast("Any", WaitingLogins(cast("Any", loop), waiting_max, 15))


def test_each_has_its_own_time() -> None:
    loop, logins = waiting()
    first, second = FakeConnection(), FakeConnection()
    logins.add(first)
    loop.advance(10)
    logins.add(second)

    loop.advance(5)
    assert first.reason
    assert not second.reason
    loop.advance(10)
    assert second.reason
    assert len(logins) == 0


def test_one_that_has_logged_in_or_was_closed_is_left_alone() -> None:
    loop, logins = waiting()
    logged_in, closed = FakeConnection(), FakeConnection()
    logins.add(logged_in)
    logins.add(closed)
    logged_in.needs_login = False
    logins.remove(closed)

    loop.advance(15)

    assert not logged_in.reason
    assert not closed.reason


def test_the_oldest_of_too_many_is_closed() -> None:
    _, logins = waiting(2)
    connections = [FakeConnection() for _ in range(3)]
    for each in connections:
        logins.add(each)

    assert [bool(each.reason) for each in connections] == [True, False, False]


def test_room_is_made_for_several_at_once() -> None:
    """Whoever looks through all connections for each new one is slow while they are many."""
    _, logins = waiting(128)
    connections = [FakeConnection() for _ in range(131)]
    for each in connections[:129]:
        logins.add(each)
    closed = [bool(each.reason) for each in connections]
    for each in connections[129:]:
        logins.add(each)

    assert closed == [True] * 3 + [False] * 128
    assert [bool(each.reason) for each in connections] == closed


def test_an_address_that_has_most_of_them_makes_the_room() -> None:
    _, logins = waiting(10)
    first = FakeConnection("there")
    flood = [FakeConnection() for _ in range(100)]
    second = FakeConnection("elsewhere")
    for each in (first, *flood[:50], second, *flood[50:]):
        logins.add(each)

    assert not first.reason
    assert not second.reason
    assert [bool(each.reason) for each in flood] == [True] * 92 + [False] * 8


def test_a_network_of_ipv6_makes_the_room_for_its_addresses() -> None:
    _, logins = waiting(10)
    first = [FakeConnection("2001:db8:1::1") for _ in range(2)]
    flood = [FakeConnection(f"2001:db8:2::{number:x}") for number in range(100)]
    for each in (*first, *flood):
        logins.add(each)

    assert not any(each.reason for each in first)
    assert sum(bool(each.reason) for each in flood) == 92


def test_addresses_that_have_as_many_make_room_in_their_order() -> None:
    _, logins = waiting(4)
    connections = [FakeConnection(address) for address in "abcbca"]
    for each in connections:
        logins.add(each)

    assert [bool(each.reason) for each in connections] == [True, True, False, False, False, False]


def test_those_that_have_logged_in_do_not_count() -> None:
    _, logins = waiting(2)
    connections = [FakeConnection() for _ in range(3)]
    connections[1].needs_login = False
    for each in connections:
        logins.add(each)

    assert not any(each.reason for each in connections)


def test_one_that_logs_in_again_at_that_time_stays_open() -> None:
    loop, logins = waiting(waiting_max=1)
    again, other = FakeConnection(), FakeConnection()
    logins.add(again)
    again.session.is_identified = True  # it has logged in, and is about to do so again

    logins.add(other)
    loop.advance(15)

    assert not again.reason
    assert other.reason
