"""Self-clocked fair queueing (Golestani 1994): who is next of owners that take different amounts.

Each owner has a clock that goes on by what it takes. The one whose clock shows least is served
next, and the common clock goes on to there. Owners that take nothing for a while do not save up:
their clocks are never behind the common one.
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
        """What an owner's clock shows."""
        return max(self._now, self._ahead.get(owner, 0))

    def advance(self, owner: object, cost: int) -> int:
        """Let an owner's clock go on by what it takes, and return what it shows then.

        Args:
            owner: whoever takes it; None: somebody who has taken nothing before.
            cost: how much that is, in a unit that is the same for all.
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
        """Let the common clock go on to the one of the owner that is served."""
        self._now = max(self._now, clock)
