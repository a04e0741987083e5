"""Until when members of a consumer group must be heard of, and must have done what they were told.

None of it is written: after a load everybody has a full session timeout again.
"""


class Watch:
    """The deadlines of one group's members."""

    __slots__ = ("_patience", "_sessions", "earliest_ms")

    def __init__(self) -> None:
        """Begin with nobody."""
        self._sessions: dict[str, int] = {}
        self._patience: dict[str, int] = {}
        # No deadline is before this; a sign of life moves its own, not this bound.
        self.earliest_ms: int | None = None

    def heard_of(self, member_id: str, deadline_ms: int) -> None:
        """A sign of life: its session ends later."""
        self._sessions[member_id] = deadline_ms
        self._expect(deadline_ms)

    def expect(self, member_id: str, deadline_ms: int) -> None:
        """It was told to do something; if it was told before, that deadline stays."""
        if member_id not in self._patience:
            self._patience[member_id] = deadline_ms
            self._expect(deadline_ms)

    def be_content_with(self, member_id: str) -> None:
        """It has done what it was told."""
        self._patience.pop(member_id, None)

    def forget(self, member_id: str) -> None:
        """It has gone."""
        self._sessions.pop(member_id, None)
        self._patience.pop(member_id, None)

    def too_late(self, now_ms: int) -> dict[str, str]:
        """Who is over a deadline, and in words why it has to go."""
        if self.earliest_ms is None or now_ms < self.earliest_ms:
            return {}
        self.earliest_ms = min((*self._sessions.values(), *self._patience.values()), default=None)
        return {
            member_id: reason
            for deadlines, reason in (
                (self._patience, "did not follow the rebalance in its rebalance timeout"),
                (self._sessions, "was not heard of for a session timeout"),
            )
            for member_id, deadline_ms in deadlines.items()
            if deadline_ms <= now_ms
        }

    def _expect(self, deadline_ms: int) -> None:
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms
