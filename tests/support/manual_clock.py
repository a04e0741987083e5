"""A clock that a test sets."""


class ManualClock:
    """A Clock that stands still until it is advanced."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        """Start both clocks at the given times."""
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as set."""
        return self._wall_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds since the start, as advanced."""
        return self._monotonic_ms

    def aged_ms(self) -> int:
        """Return the wall time."""
        return self._wall_ms

    def latest_ms(self) -> int:
        """Return the wall time."""
        return self._wall_ms

    def boot_ms(self) -> int:
        """Return the monotonic time."""
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Advance both clocks."""
        if milliseconds < 0:
            raise ValueError("time only advances; set_wall_ms() turns the wall clock back")
        self._wall_ms += milliseconds
        self._monotonic_ms += milliseconds

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock only, as an operator can."""
        self._wall_ms = wall_ms
