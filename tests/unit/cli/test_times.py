"""Points in time and durations on the command line."""

import pytest

from broker.cli.times import duration_text, parse_duration, time_ms
from broker.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.250", 250),
        ("1700000000", 1_700_000_000_000),
        ("-1h", 6_400_000),
        ("-1h30m", 4_600_000),
    ],
)
def test_a_time_is_a_date_in_utc_without_an_offset_a_number_or_so_long_ago(
    text: str, expected: int
) -> None:
    assert time_ms(text, now_ms=10_000_000) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1.5s", 1500),
        ("20ms", 20),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
    ],
)
def test_a_duration_has_units_or_is_in_iso_8601(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "1", "h", "1x", "P", "PT", "1h 2m", "-1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no time"):
        time_ms(text)


@pytest.mark.parametrize("text", ["-", "-5", "-1y", "-" + "9" * 20 + "d"])
def test_what_is_no_time_ago_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="duration"):
        time_ms(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (3661, "1h 1m"), (90_000, "1d 1h")]
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize("text", ["9" * 16, "9" * 5000, "\N{SUPERSCRIPT TWO}"])
def test_a_number_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no time"):
        time_ms(text)


@pytest.mark.parametrize("text", ["99999999999d", "9" * 400 + "s", f"P{'9' * 400}D"])
def test_a_duration_beyond_all_logs_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="too long a duration"):
        parse_duration(text)
