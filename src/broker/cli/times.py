"""Points in time and durations on the command line."""

import math
import re
from datetime import UTC, datetime
from typing import Any, Final

import click

from broker.model.clock import SystemClock
from broker.model.errors import ConfigError

_DAY_SECONDS: Final = 86_400.0
_DIGITS_MAX: Final = 15  # of milliseconds: 30,000 years, which fit into requests
_SECONDS_MAX: Final = 10**11  # larger numbers are milliseconds: 1973, or the year 5138
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO: Final = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)


def time_ms(text: str, now_ms: int | None = None) -> int:
    """Return milliseconds since 1970 of a time on the command line.

    It is in ISO 8601, in UTC without an offset; a number of seconds or of milliseconds since 1970;
    or so long ago, as -1h30m. Raises ConfigError.
    """
    if text.startswith("-"):
        now = SystemClock().wall_ms() if now_ms is None else now_ms
        return now - parse_duration(text[1:])
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return int(text) * (1000 if int(text) < _SECONDS_MAX else 1)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no time: expected one as 2026-01-31T12:00:00Z, seconds or milliseconds"
            " since 1970, or -1h"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Return the milliseconds of a duration: 90s, 1h30m, 7d, or ISO 8601 as PT1H30M.

    Raises ConfigError.
    """
    if (iso := _ISO.fullmatch(text)) and any(iso.groups()):
        found = ((unit, value) for unit, value in iso.groupdict().items() if value)
        return _whole(text, sum(float(value) * _MS[unit] for unit, value in found))
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(f"{text!r} is no duration: expected one as 90s, 1h30m, 7d or PT1H30M")
    return _whole(text, sum(float(number) * _MS[unit] for number, unit in parts))


def _whole(text: str, milliseconds: float) -> int:
    if not milliseconds < 10**_DIGITS_MAX:
        raise ConfigError(f"{text[:40]!r} is too long a duration")
    return int(milliseconds)


class Seconds(click.FloatRange):
    """A number of seconds for which a command may run or wait."""

    def __init__(self, low: float = 0.1, high: float = _DAY_SECONDS) -> None:
        """Allow so many."""
        super().__init__(min=low, max=high)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as of its base
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number; nan is none, although it is in no order with the bounds."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


def duration_text(seconds: float) -> str:
    """Return a duration for people, in its two largest units."""
    left = int(seconds)
    texts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not texts):
            texts.append(f"{count}{unit}")
    return " ".join(texts[:2])
