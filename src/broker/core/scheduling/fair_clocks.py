"""Self-clocked fair queueing (Golestani 1994) among owners whose requests differ in cost.

Each owner has a clock that advances by what it consumes. The owner with the lowest clock is served
next, and the common clock advances to that value. An idle owner earns no credit: its clock is never
behind the common one.
"""

_KEPT_MIN = 1_024  # before clocks that are not ahead of the common one are dropped


class FairClocks:
    """The clocks of all owners."""

    __slots__ = ("_ahead", "_kept_max", "_now")

    def __init__(self) -> None:
        """Begin at zero."""
        self._now = 0
        self._ahead: dict[object, int] = {}
        self._kept_max = _KEPT_MIN

    def of(self, owner: object) -> int:
        """Return what an owner's clock shows."""
        return max(self._now, self._ahead.get(owner, 0))

    def advance(self, owner: object, cost: int) -> int:
        """Advance an owner's clock by a cost, and return what it shows then.

        Args:
            owner: who consumes it; None: a new owner.
            cost: how much, in a unit that is the same for all owners.
        """
        clock = self.of(owner) + cost
        if owner is None:
            return clock
        if len(self._ahead) >= self._kept_max:
            self._ahead = {each: at for each, at in self._ahead.items() if at > self._now}
            self._kept_max = max(_KEPT_MIN, 2 * len(self._ahead))
        self._ahead[owner] = clock
        return clock

    def reach(self, clock: int) -> None:
        """Advance the common clock to that of the owner that is served."""
        self._now = max(self._now, clock)
