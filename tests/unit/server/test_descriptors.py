"""How descriptors are divided."""

import pytest

from broker.model.errors import ConfigError
from broker.model.limits import DESCRIPTORS_MIN, OPEN_SEGMENTS_MIN, SPARE_DESCRIPTORS
from broker.server.descriptors import shared_out


@pytest.mark.parametrize("descriptors", [256, 257, 1_024, 20_000, 1 << 20])
def test_connections_and_segments_leave_spare_descriptors(descriptors: int) -> None:
    shares = shared_out(descriptors)

    assert sum(shares) == descriptors - SPARE_DESCRIPTORS
    assert shares.segments >= OPEN_SEGMENTS_MIN


def test_too_few_descriptors_are_reported_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"may open 255 files.*ulimit -Hn"):
        shared_out(DESCRIPTORS_MIN - 1)
