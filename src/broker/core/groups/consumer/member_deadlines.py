"""Deadlines of a consumer group's members: session timeouts and rebalance timeouts.

They are not stored: after a load every member has a full session timeout.
"""


class MemberDeadlines:
    """The deadlines of one group's members."""

    __slots__ = ("_rebalances", "_sessions", "earliest_ms")

    def __init__(self) -> None:
        """Begin without members."""
        self._sessions: dict[str, int] = {}
        self._rebalances: dict[str, int] = {}
        # No deadline is before this. A heartbeat moves the member's own deadline, not this bound.
        self.earliest_ms: int | None = None

    def extend_session(self, member_id: str, deadline_ms: int) -> None:
        """Move the end of a member's session."""
        self._sessions[member_id] = deadline_ms
        self._lower_earliest(deadline_ms)

    def start_rebalance_timeout(self, member_id: str, deadline_ms: int) -> None:
        """Start a member's rebalance timeout; one that is running is not changed."""
        if member_id not in self._rebalances:
            self._rebalances[member_id] = deadline_ms
            self._lower_earliest(deadline_ms)

    def cancel_rebalance_timeout(self, member_id: str) -> None:
        """Cancel a member's rebalance timeout."""
        self._rebalances.pop(member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        self._sessions.pop(member_id, None)
        self._rebalances.pop(member_id, None)

    def expired(self, now_ms: int) -> dict[str, str]:
        """Return the members past a deadline, each with the reason to remove it."""
        if self.earliest_ms is None or now_ms < self.earliest_ms:
            return {}
        self.earliest_ms = min((*self._sessions.values(), *self._rebalances.values()), default=None)
        return {
            member_id: reason
            for deadlines, reason in (
                (self._rebalances, "did not complete the rebalance within its rebalance timeout"),
                (self._sessions, "sent no heartbeat within the session timeout"),
            )
            for member_id, deadline_ms in deadlines.items()
            if deadline_ms <= now_ms
        }

    def _lower_earliest(self, deadline_ms: int) -> None:
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms
