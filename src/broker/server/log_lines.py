"""The lines of the broker's log, and a rate limit: lines per event and second, whatever clients do.

An event is a logger and the template of its message; ids and addresses are arguments. Lines that
were suppressed in a second are counted, and reported before the next line.
"""

import logging
import threading

from broker.model.clock import Clock
from broker.model.limits import LOG_EVENTS_PER_SECOND_MAX, LOG_LINES_PER_SECOND_MAX

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SECOND_MS = 1_000


class LinesOf(logging.Formatter):
    """Writes which process a line is of, where several have one log, also into tracebacks."""

    def __init__(self, who: str) -> None:
        """Format the lines of `who`, such as worker=2."""
        super().__init__(FORMAT.replace("%(name)s", f"{who} %(name)s"))
        self._continued = f"\n{who} "

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record: one line or several."""
        return super().format(record).replace("\n", self._continued)


class LineLimit(logging.Filter):
    """Passes the first lines of each event in each second; for a handler, from any thread."""

    def __init__(self, clock: Clock) -> None:
        """Begin a second without lines."""
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._second = clock.monotonic_ms() // _SECOND_MS
        self._lines: dict[tuple[str, str], int] = {}  # in this second, by logger and template
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
            is_written = self._lines[event] <= LOG_LINES_PER_SECOND_MAX
        for level, name, template, count in left_out:
            logging.getLogger(name).log(level, "lines left out: count=%d of=%r", count, template)
        return is_written

    def _left_out(self) -> list[tuple[int, str, str, int]]:
        """Return what the past second suppressed: level, logger, template, number of lines."""
        found = [
            (self._levels[event], *event, count - LOG_LINES_PER_SECOND_MAX)
            for event, count in self._lines.items()
            if count > LOG_LINES_PER_SECOND_MAX
        ]
        self._lines.clear()
        self._levels.clear()
        return found
