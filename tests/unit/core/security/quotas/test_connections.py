"""How many connections an address and a listener may have, and how fast they may come."""

import pytest

from broker.core.security.quotas.connections import ConnectionLimits
from broker.model.config import load
from broker.model.errors import ConfigError
from broker.model.listener import ListenerConfig
from tests.support.manual_clock import ManualClock

HOST = "10.0.0.1"


class Door:
    """The limits of a configuration, its listeners, and a clock."""

    def __init__(self, *settings: str, rates: dict[str, float] | None = None) -> None:
        """Open it; `rates` are the quotas of addresses."""
        self.clock = ManualClock()
        config = load(["listeners=localhost:0,SASL_PLAINTEXT://localhost:0", *settings])
        self.rates = rates or {}
        self.limits = ConnectionLimits(config, self.rates.get, self.clock.monotonic_ms)
        self.plain, self.other = config.listeners

    def enter(self, listener: ListenerConfig, host: str = HOST) -> bool:
        """Accept a connection; return whether it is served."""
        return self.limits.refusal(listener, host) is None

    def count_of(self, seconds: float, host: str = HOST, each_ms: int = 10) -> int:
        """Try to connect every few milliseconds; return how often it was served."""
        served = 0
        for _ in range(int(seconds * 1000 / each_ms)):
            served += self.enter(self.plain, host)
            self.clock.advance(each_ms)
        return served


def test_without_limits_any_number_is_served() -> None:
    door = Door()

    assert door.count_of(10) == 1_000
    assert door.limits.pause_ms(door.plain) == 0


def test_an_address_may_have_as_many_as_it_is_allowed() -> None:
    door = Door("max.connections.per.ip=2")

    assert [door.enter(door.plain) for _ in range(3)] == [True, True, False]
    assert door.enter(door.plain, "10.0.0.2")

    door.limits.closed(door.plain, HOST)
    assert door.enter(door.other)
    assert not door.enter(door.other)


def test_a_refused_connection_does_not_count() -> None:
    door = Door("max.connections.per.ip=1")
    for _ in range(5):
        door.enter(door.plain)

    door.limits.closed(door.plain, HOST)

    assert door.enter(door.plain)


def test_some_addresses_have_their_own_number() -> None:
    door = Door("max.connections.per.ip=1", "max.connections.per.ip.overrides=::1:3,127.0.0.1:0")

    assert [door.enter(door.plain, "::1") for _ in range(4)] == [True, True, True, False]
    assert not door.enter(door.plain, "127.0.0.1")


@pytest.mark.parametrize("word", ["localhost:3", "10.0.0.1", "10.0.0.1:-1", "300.1.1.1:5"])
def test_an_override_is_an_address_and_a_count(word: str) -> None:
    with pytest.raises(ConfigError, match="overrides"):
        Door(f"max.connections.per.ip.overrides={word}")


def test_a_listener_may_have_as_many_as_it_is_allowed() -> None:
    door = Door("listener.name.sasl_plaintext.max.connections=1")

    assert [door.enter(door.other) for _ in range(2)] == [True, False]
    assert all(door.enter(door.plain) for _ in range(20))

    door.limits.closed(door.other, HOST)
    assert door.enter(door.other)


def test_an_altered_configuration_applies_to_what_is_open() -> None:
    door = Door()
    assert all(door.enter(door.plain) for _ in range(5))

    door.limits.alter(load(["max.connections.per.ip=5"]))

    assert not door.enter(door.plain)


def test_an_address_above_its_rate_is_refused_and_closed_later() -> None:
    """As a broker of Kafka 4.3 was seen to do with 5 per second and two windows."""
    door = Door("quota.window.num=2", rates={HOST: 5.0})
    first = [door.limits.refusal(door.plain, HOST) for _ in range(6)]

    assert first[:5] == [None] * 5
    assert first[5] is not None
    assert 0 < first[5].after_ms <= 1_000
    assert door.enter(door.plain, "10.0.0.2")
    door.clock.advance(1_000)
    assert 27 * 5 <= door.count_of(30) <= 33 * 5


def test_a_listener_pauses_above_the_rate_of_the_broker() -> None:
    door = Door("max.connection.creation.rate=10", "quota.window.num=2")
    served = 0
    for _ in range(3_000):
        if not door.limits.pause_ms(door.plain):
            served += door.enter(door.plain)
        door.clock.advance(10)

    assert door.limits.pause_ms(door.other) == door.limits.pause_ms(door.plain)
    assert served / 30 == pytest.approx(10, rel=0.1)


def test_a_listener_has_its_own_rate() -> None:
    door = Door("listener.name.sasl_plaintext.max.connection.creation.rate=1", "quota.window.num=1")
    for _ in range(3):
        door.enter(door.other)
        door.enter(door.plain)

    assert door.limits.pause_ms(door.other) > 0
    assert door.limits.pause_ms(door.plain) == 0


def test_addresses_that_are_gone_take_no_memory() -> None:
    door = Door()
    for number in range(100):
        assert door.enter(door.plain, f"10.0.0.{number}")
    for number in range(100):
        door.limits.closed(door.plain, f"10.0.0.{number}")

    assert not door.limits._by_address
    assert not door.limits._by_listener
