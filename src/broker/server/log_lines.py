"""The lines of the broker's log, and a rate limit, whatever clients do.

A message is a template, with the words that name its event first and values as name=%s after them;
ids and addresses are arguments. From that a line is made in one of three formats:

    text      2026-11-28 16:00:00,123 WARNING broker.server.x: certificate expires: days=3
    logfmt    ts=2026-11-28T16:00:00.123Z level=WARNING event=certificate_expires days=3 ...
    json      {"ts":"...","level":"WARNING","event":"certificate_expires","fields":{"days":3},...}

In each of them a message is one line: characters that are not printable are escaped. docs/logs.md
has every event that is a warning or an error.

At most so many lines of an event, and of all events together, are written in a second. Those that
were suppressed in a second are counted, and reported before the next line.
"""

import logging
import re
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from broker.model.clock import Clock
from broker.model.limits import (
    LOG_EVENTS_PER_SECOND_MAX,
    LOG_LINES_OF_ALL_PER_SECOND_MAX,
    LOG_LINES_PER_SECOND_MAX,
)
from broker.model.printable import printable, printable_lines

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SECOND_MS: Final = 1_000
_TEMPLATES_KEPT_MAX: Final = 512
# The words before the first value, comma or colon are the name of an event.
_WORDS: Final = re.compile(r"[^,:%]*?(?=[,:%]|$| [\w.]+=)")
_FORM: Final = r"%(?:%|[-+ #0]*\d*(?:\.\d+)?[a-zA-Z])"
# Values may be joined to one, as in offsets=%d..%d.
_VALUE: Final = re.compile(rf"(?:([\w.]+)=)?({_FORM}(?:(?:\.\.|[-:])?{_FORM})*)")
_PLAIN: Final = re.compile(r"[\w.:/@+-]+")  # values of logfmt that need no quotes
_OWN: Final = frozenset(("ts", "level", "event", "logger", "message", "process", "exception"))


def event_of(template: str) -> str:
    """Return the name of the event that a template begins with; empty if it begins with a value."""
    found = _WORDS.match(template)
    words = re.findall(r"\w+", found.group() if found else "")
    return "_".join(words).lower()


class TextLines(logging.Formatter):
    """Lines for people; a traceback follows its line.

    Where several processes have one log, each line says which process it is of, also those of a
    traceback.
    """

    def __init__(self, who: str = "") -> None:
        """Format the lines of `who`, such as worker=2."""
        super().__init__(_TEXT.replace("%(name)s", f"{who} %(name)s") if who else _TEXT)
        self._continued = f"\n{who} " if who else "\n"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (its name in logging)
        """Return the first line of a record."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record: one line, or several with a traceback."""
        # The message of an exception may have what a client has sent.
        return printable_lines(super().format(record)).replace("\n", self._continued)


class _FieldLines(logging.Formatter):
    """Lines of fields: each record is one line, also with a traceback."""

    def __init__(self, who: str = "") -> None:
        super().__init__()
        self._who = who

    def _head(self, record: logging.LogRecord) -> dict[str, object]:
        """Return what each line has: when, how severe, which event."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head: dict[str, object] = {
            "ts": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "event": _event(str(record.msg)) or record.name.rpartition(".")[2],
            "logger": record.name,
        }
        if self._who:
            head["process"] = self._who
        return head

    def _exception(self, record: logging.LogRecord) -> str:
        return "" if record.exc_info is None else self.formatException(record.exc_info)


class JsonLines(_FieldLines):
    """A JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        line = {**self._head(record), "message": record.getMessage()}
        line["fields"] = dict(_fields(record))
        exception = self._exception(record)
        if exception:
            line["exception"] = exception
        import json  # noqa: PLC0415 - 5 ms of a start whose lines are text

        return json.dumps(line, separators=(",", ":"), default=str)


class LogfmtLines(_FieldLines):
    """name=value per field; values with other characters than those of names are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        line = self._head(record)
        for name, value in _fields(record):
            line[f"field_{name}" if name in _OWN else name] = value
        line["message"] = record.getMessage()
        exception = self._exception(record)
        if exception:
            line["exception"] = exception
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in line.items())


FORMATS: Final = {"text": TextLines, "logfmt": LogfmtLines, "json": JsonLines}


def write_lines_as(name: str, who: str = "") -> None:
    """Let all handlers of this process write lines of a format."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(FORMATS[name](who))


@lru_cache(_TEMPLATES_KEPT_MAX)
def _event(template: str) -> str:
    return event_of(template)


@lru_cache(_TEMPLATES_KEPT_MAX)
def _values(template: str) -> tuple[tuple[str | None, str, int], ...]:
    """Return the values of a template in order.

    Of each its name, if any, how it is formatted, and how many arguments that takes.
    """
    found = _VALUE.findall(template)
    return tuple((name or None, form, form.replace("%%", "").count("%")) for name, form in found)


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Return the named values of a record; numbers stay numbers."""
    if not isinstance(record.args, tuple):
        return
    place = 0
    for name, form, count in _values(str(record.msg)):
        values = record.args[place : place + count]
        place += count
        if name is not None and len(values) == count:
            is_number = type(values[0]) in (int, float, bool) and form[-1] != "x" and count == 1
            yield name, values[0] if is_number else form % values


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.isascii():
        return value
    import json  # noqa: PLC0415 - see JsonLines

    return json.dumps(value)


class LineLimit(logging.Filter):
    """Passes the first lines of each event in each second; for a handler, from any thread.

    Of an event, the first line of a second is written however many lines other events have.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin a second without lines."""
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._second = clock.monotonic_ms() // _SECOND_MS
        self._written = 0  # in this second
        self._lines: dict[tuple[str, str], int] = {}  # likewise, by logger and template
        self._passed: dict[tuple[str, str], int] = {}  # those of them that were written
        self._levels: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; first report what earlier seconds suppressed."""
        second = self._clock.monotonic_ms() // _SECOND_MS
        with self._lock:
            left_out = self._left_out() if second != self._second else []
            self._second = second
            event = (record.name, str(record.msg))
            if event not in self._lines and len(self._lines) >= LOG_EVENTS_PER_SECOND_MAX:
                event = (record.name, "other events")
            self._lines[event] = self._lines.get(event, 0) + 1
            self._levels[event] = record.levelno
            is_first = event not in self._passed
            passed = self._passed.get(event, 0)
            has_room = self._written < LOG_LINES_OF_ALL_PER_SECOND_MAX
            is_written = is_first or (passed < LOG_LINES_PER_SECOND_MAX and has_room)
            self._written += is_written
            self._passed[event] = passed + is_written
        for level, name, template, count in left_out:
            logging.getLogger(name).log(level, "lines left out: count=%d of=%r", count, template)
        return is_written

    def _left_out(self) -> list[tuple[int, str, str, int]]:
        """Return what the past second suppressed: level, logger, template, number of lines."""
        found = [
            (self._levels[event], *event, count - self._passed[event])
            for event, count in self._lines.items()
            if count > self._passed[event]
        ]
        self._written = 0
        self._lines.clear()
        self._passed.clear()
        self._levels.clear()
        return found
