"""Progress of what takes more than a second, on stderr: a bar on a terminal, lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker.cli.output import size_text
from broker.model.clock import Clock, SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_SHOW_AFTER_MS: Final = 1000
_LINE_EVERY_MS: Final = 10_000
_BAR_EVERY_MS: Final = 100


class Progress:
    """How far a job has come; nothing is printed in its first second.

    Attributes:
        done: units that are done.
        bytes: of these.
    """

    def __init__(self, what: str, total: int | None, unit: str, clock: Clock | None = None) -> None:
        """Begin; `total` is None if it is not known."""
        self.done = 0
        self.bytes = 0
        self._what = what
        self._total = total
        self._unit = unit
        self._clock = clock or SystemClock()
        self._start = self._clock.monotonic_ms()
        self._next = self._start + _SHOW_AFTER_MS
        self._bar: tuple[Bar, TaskID] | None = None

    def add(self, done: int, size_bytes: int = 0) -> None:
        """Add what was done since the last call."""
        self.done += done
        self.bytes += size_bytes
        now = self._clock.monotonic_ms()
        if now < self._next:
            return
        if sys.stderr.isatty():
            self._next = now + _BAR_EVERY_MS
            self._show_bar(now)
        else:
            self._next = now + _LINE_EVERY_MS
            print(f"{self._what}: {self._text(now)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar[0].stop()

    def _show_bar(self, now: int) -> None:
        if self._bar is None:
            from rich.console import Console  # noqa: PLC0415 - only of long jobs on a terminal
            from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
            from rich.progress import Progress as Bar  # noqa: PLC0415

            bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                console=Console(stderr=True),
                transient=True,
            )
            bar.start()
            self._bar = bar, bar.add_task(self._what, total=self._total, text="")
        bar, task = self._bar
        bar.update(task, completed=self.done, text=self._text(now))

    def _text(self, now: int) -> str:
        seconds = max(now - self._start, 1) / 1000
        parts = [f"{self.done:,} {self._unit}"]
        if self._total:
            parts = [f"{self.done:,} of {self._total:,} {self._unit}"]
        if self.bytes:
            parts.append(f"{size_text(self.bytes / seconds)}/s")
        if self._total and self.done:
            left = seconds / self.done * max(self._total - self.done, 0)
            parts.append(f"{left:.0f} s left")
        return ", ".join(parts)


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "records") -> Iterator[Progress]:
    """Show the progress of a block."""
    shown = Progress(what, total, unit)
    try:
        yield shown
    finally:
        shown.close()
