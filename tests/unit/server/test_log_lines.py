"""The limit of log lines."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from broker.model.limits import (
    LOG_EVENTS_PER_SECOND_MAX,
    LOG_LINES_OF_ALL_PER_SECOND_MAX,
    LOG_LINES_PER_SECOND_MAX,
)
from broker.server.log_lines import FORMATS, JsonLines, LineLimit, LogfmtLines, TextLines
from tests.support.manual_clock import ManualClock

MAX = LOG_LINES_PER_SECOND_MAX


class Lines(logging.Handler):
    """Keeps the records that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Log:
    """A logger whose only handler has the limit."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.handler = Lines()
        self.handler.addFilter(LineLimit(self.clock))
        self.logger = logging.getLogger("tests.log_lines")
        self.logger.setLevel(logging.INFO)
        self.logger.propagate = False
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        """Return the logged lines."""
        return self.handler.lines

    def write(self, template: str, times: int) -> None:
        """Log an event that many times."""
        for place in range(times):
            self.logger.warning(template, place)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.logger.removeHandler(log.handler)


def test_log_lines_of_an_event_are_limited_per_second(log: Log) -> None:
    log.write("refused: %d", 10 * MAX)

    assert log.lines == [f"refused: {place}" for place in range(MAX)]


def test_other_events_are_not_affected_by_the_limit_of_one(log: Log) -> None:
    log.write("refused: %d", 10 * MAX)
    log.write("closed: %d", 1)

    assert log.lines[MAX:] == ["closed: 0"]


def test_suppressed_lines_are_counted_before_the_next_line(log: Log) -> None:
    log.write("refused: %d", MAX + 7)
    log.clock.advance(1_000)
    log.write("closed: %d", 1)

    assert log.lines[MAX:] == ["lines left out: count=7 of='refused: %d'", "closed: 0"]


def test_each_second_has_its_own_limit(log: Log) -> None:
    for _ in range(3):
        log.write("refused: %d", MAX)
        log.clock.advance(1_000)

    assert len(log.lines) == 3 * MAX


def test_all_events_share_a_limit_that_leaves_each_its_first_line(log: Log) -> None:
    events = LOG_LINES_OF_ALL_PER_SECOND_MAX // MAX + 5
    for number in range(events):
        log.write(f"event {number}: %d", MAX)

    assert len(log.lines) == LOG_LINES_OF_ALL_PER_SECOND_MAX + 5
    log.clock.advance(1_000)
    log.write("closed: %d", 1)
    left_out = [line for line in log.lines if line.startswith("lines left out: count=99 ")]
    assert len(left_out) == 5


def test_events_without_a_number_share_one_limit(log: Log) -> None:
    for number in range(LOG_EVENTS_PER_SECOND_MAX + 10 * MAX):
        log.write(f"event {number}: %d", 1)

    assert len(log.lines) == LOG_EVENTS_PER_SECOND_MAX + MAX


def record(template: str, *values: object, exc_info: Any = None) -> logging.LogRecord:
    made = logging.LogRecord("broker.example", logging.WARNING, "", 0, template, values, exc_info)
    made.created, made.msecs = 1_700_000_000.25, 250.0
    return made


def test_a_line_of_json_has_the_event_its_values_and_the_message() -> None:
    line = JsonLines("worker=2").format(
        record("keys are old, new ones come: of=%s days=%d at=%d..%d: %s", "a", 3, 4, 5, "why")
    )

    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "event": "keys_are_old",
        "logger": "broker.example",
        "process": "worker=2",
        "message": "keys are old, new ones come: of=a days=3 at=4..5: why",
        "fields": {"of": "a", "days": 3, "at": "4..5"},
    }


def test_a_line_of_logfmt_quotes_what_is_not_plain() -> None:
    line = LogfmtLines().format(record('lease lost: id=%x level=%s why="%s"', 255, "l w", 'q"'))

    assert line == (
        "ts=2023-11-14T22:13:20.250Z level=WARNING event=lease_lost logger=broker.example"
        ' id=ff field_level="l w" message="lease lost: id=ff level=l w why=\\"q\\"\\""'
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\x00", "\x85", "\u2028", "\udc80"])
def test_a_message_is_one_line_of_printable_characters(name: str, character: str) -> None:
    line = FORMATS[name]().format(record("refused: by=%s", f"x{character}2026 ERROR forged"))

    assert line.isprintable()


@pytest.mark.parametrize("name", ["json", "logfmt"])
def test_a_traceback_is_in_the_line_of_its_record(name: str) -> None:
    try:
        raise ValueError("why\nso")
    except ValueError:
        line = FORMATS[name]().format(record("command failed: of=%s", "x", exc_info=sys.exc_info()))

    assert line.isprintable()
    assert "ValueError" in line
    assert "Traceback" in line


def test_lines_of_a_traceback_have_printable_characters() -> None:
    try:
        raise ValueError("why\x1b[2J\rso")
    except ValueError:
        text = TextLines().format(record("command failed: of=%s", "x", exc_info=sys.exc_info()))

    assert "ValueError: why\\x1b[2J\\rso" in text
    assert all(each.isprintable() for each in text.split("\n"))


def test_a_template_without_words_has_the_name_of_its_logger_as_event() -> None:
    assert json.loads(JsonLines().format(record("%s", "note")))["event"] == "example"
