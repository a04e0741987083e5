"""Times of ranges of offsets."""

import pytest

from broker.cli.topic.spans import time_ms
from broker.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000", 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-02", 86_400_000),
        ("-1h", 6_400_000),
        ("-1h30m", 4_600_000),
    ],
)
def test_a_time_is_a_number_a_date_or_so_long_ago(text: str, expected: int) -> None:
    assert time_ms(text, now_ms=10_000_000) == expected


@pytest.mark.parametrize("text", ["", "-", "x", "-1y", "9" * 20, "-" + "9" * 20 + "d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        time_ms(text)
