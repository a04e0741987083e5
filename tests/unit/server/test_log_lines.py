"""The limit of log lines."""

import logging
from collections.abc import Iterator

import pytest

from broker.model.limits import LOG_EVENTS_PER_SECOND_MAX, LOG_LINES_PER_SECOND_MAX
from broker.server.log_lines import LineLimit
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


def test_events_without_a_number_share_one_limit(log: Log) -> None:
    for number in range(LOG_EVENTS_PER_SECOND_MAX + 10 * MAX):
        log.write(f"event {number}: %d", 1)

    assert len(log.lines) == LOG_EVENTS_PER_SECOND_MAX + MAX
