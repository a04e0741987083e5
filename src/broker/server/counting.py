"""Counts what happens often, so that it is logged at a limited rate."""

from collections.abc import Callable


class Counting:
    """How often something has happened since it was logged last."""

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        """Begin with nothing; it is logged every so many seconds at most."""
        self._monotonic = monotonic
        self._seconds = seconds
        self._count = 0
        self._told_at: float | None = None

    def add(self) -> int:
        """Count once more; return the count if it is to be logged now, else 0.

        The first is logged at once, the next ones together after a time.
        """
        self._count += 1
        now = self._monotonic()
        if self._told_at is not None and now - self._told_at < self._seconds:
            return 0
        count, self._count, self._told_at = self._count, 0, now
        return count
