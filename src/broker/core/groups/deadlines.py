"""Deadlines of members and of member ids. They are not stored."""


class Deadlines:
    """Deadlines by member id.

    Attributes:
        earliest_ms: the monotonic time before which none has passed; None: there is none. A
            deadline that is moved or removed does not move this bound.
    """

    __slots__ = ("_by_id", "earliest_ms")

    def __init__(self) -> None:
        """Begin without deadlines."""
        self._by_id: dict[str, int] = {}
        self.earliest_ms: int | None = None

    def __len__(self) -> int:
        """Return the number of deadlines."""
        return len(self._by_id)

    def __contains__(self, member_id: str) -> bool:
        """Return whether a member id has a deadline."""
        return member_id in self._by_id

    def set(self, member_id: str, deadline_ms: int) -> None:
        """Set or move the deadline of a member id."""
        self._by_id[member_id] = deadline_ms
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms

    def remove(self, member_id: str) -> None:
        """Remove a deadline, if there is one."""
        self._by_id.pop(member_id, None)

    def expire(self, now_ms: int) -> list[str]:
        """Remove the deadlines that have passed; return their member ids."""
        if self.earliest_ms is None or now_ms < self.earliest_ms:
            return []
        expired = [each for each, deadline_ms in self._by_id.items() if deadline_ms <= now_ms]
        for each in expired:
            del self._by_id[each]
        self.earliest_ms = min(self._by_id.values(), default=None)
        return expired
