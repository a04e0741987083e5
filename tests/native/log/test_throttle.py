"""The rate at which replicas may copy; what it limits is in the tests of both ends."""

import pytest

from broker._native.log.throttle import Throttle

NO_LIMIT = (1 << 63) - 1


def test_there_is_no_limit_before_a_rate_is_set() -> None:
    assert Throttle().rate == NO_LIMIT


@pytest.mark.parametrize("rate", [0, 1, NO_LIMIT])
def test_the_rate_is_what_was_set_last(rate: int) -> None:
    throttle = Throttle()
    throttle.rate = 1_000

    throttle.rate = rate

    assert throttle.rate == rate
