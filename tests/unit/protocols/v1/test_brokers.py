"""The brokers that are registered with V1."""

import pytest

from broker.protocols.v1.brokers import Brokers
from broker.protocols.v1.errors import RefusedError


def test_this_broker_is_listed_before_any_registration() -> None:
    assert Brokers(2).known(1) == [1]


def test_a_broker_that_registers_twice_is_listed_once() -> None:
    brokers = Brokers(2)

    assert [brokers.register(each) for each in (3, 0, 3)] == [1, 2, 3]
    assert brokers.known(1) == [0, 1, 3]


def test_every_change_has_its_own_index() -> None:
    brokers = Brokers(2)

    assert [brokers.next_index(), brokers.register(5), brokers.next_index()] == [1, 2, 3]


def test_the_number_of_registered_brokers_is_limited() -> None:
    brokers = Brokers(1)
    brokers.register(3)

    with pytest.raises(RefusedError, match="1 brokers are registered"):
        brokers.register(4)
    assert brokers.register(3) == 2
