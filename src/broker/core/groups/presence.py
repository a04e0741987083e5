"""Who is in a group or on the way into it: their sessions, and what they can take part in.

None of it is ever written: after a load members get a full session timeout. What a join has to
know of all the others (who supports which protocol, what their subscriptions weigh, who goes by
which instance id, when to look again) is counted as members come and go, so that a join costs the
same in a group of a thousand.
"""

from collections.abc import Iterable, Mapping

from broker.core.groups.commands import GroupProtocol
from broker.model.limits import MEMBER_BYTES


class Presence:
    """What is known of a living member beside its record."""

    __slots__ = (
        "instance_id",
        "is_new",
        "metadata",
        "metadata_bytes",
        "protocols",
        "session_deadline_ms",
    )

    def __init__(
        self,
        instance_id: str | None,
        protocols: tuple[GroupProtocol, ...],
        session_deadline_ms: int,
        *,
        is_new: bool = False,
    ) -> None:
        """Begin with what the member's join said."""
        self.instance_id = instance_id
        self.session_deadline_ms = session_deadline_ms
        self.is_new = is_new
        self.protocols = protocols
        # Of a name that is given twice the first counts.
        self.metadata: Mapping[str, bytes] = dict(reversed(protocols))
        self.metadata_bytes = sum([protocol.size for protocol in protocols])


class GroupPresence:
    """The presence of every member of one group, by member id."""

    __slots__ = ("_by_id", "_instances", "_supporters", "earliest_ms", "metadata_bytes")

    def __init__(self) -> None:
        """Begin with nobody."""
        self._by_id: dict[str, Presence] = {}
        self._instances: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        self.metadata_bytes = 0
        # No session ends before this; a sign of life moves its own deadline, not this bound.
        self.earliest_ms: int | None = None

    def __getitem__(self, member_id: str) -> Presence:
        """The presence of a member of the group."""
        return self._by_id[member_id]

    def add(self, member_id: str, presence: Presence) -> None:
        """Count a member in."""
        self._by_id[member_id] = presence
        if presence.instance_id is not None:
            self._instances[presence.instance_id] = member_id
        self._count(presence)
        self._expect(presence.session_deadline_ms)

    def remove(self, member_id: str) -> Presence:
        """Count a member out."""
        presence = self._by_id.pop(member_id)
        if presence.instance_id is not None:
            del self._instances[presence.instance_id]
        self._discount(presence)
        return presence

    def offer(self, member_id: str, protocols: tuple[GroupProtocol, ...]) -> None:
        """A member that joins again says anew what it can take part in."""
        old = self._by_id[member_id]
        if old.protocols != protocols:
            self._discount(old)
            new = Presence(old.instance_id, protocols, old.session_deadline_ms, is_new=old.is_new)
            self._by_id[member_id] = new
            self._count(new)

    def live_until(self, member_id: str, deadline_ms: int) -> None:
        """Move the end of a session."""
        self._by_id[member_id].session_deadline_ms = deadline_ms
        self._expect(deadline_ms)

    def look_again(self) -> None:
        """Find out anew when the next session can end."""
        deadlines = (presence.session_deadline_ms for presence in self._by_id.values())
        self.earliest_ms = min(deadlines, default=None)

    def static_id(self, instance_id: str) -> str | None:
        """The member id under which an instance is known now."""
        return self._instances.get(instance_id)

    def supports(self, names: Iterable[str], *, apart_from: str | None) -> bool:
        """Whether all members but one support one of these protocols."""
        apart = None if apart_from is None else self._by_id.get(apart_from)
        own_names: Mapping[str, bytes] = {} if apart is None else apart.metadata
        others = len(self._by_id) - (apart is not None)
        count = self._supporters.get
        return any(count(name, 0) - (name in own_names) == others for name in names)

    def has_others(self, member_id: str | None) -> bool:
        """Whether anybody but this member is here."""
        return len(self._by_id) > (member_id in self._by_id)

    def metadata_bytes_apart_from(self, member_id: str | None) -> int:
        """What the subscriptions of all members but one weigh."""
        apart = None if member_id is None else self._by_id.get(member_id)
        return self.metadata_bytes - (0 if apart is None else apart.metadata_bytes)

    @property
    def weight(self) -> int:
        """What all members take, as group_sizes.py counts it."""
        return self.metadata_bytes + len(self._by_id) * MEMBER_BYTES

    def weight_of(self, member_id: str | None) -> int:
        """What one of them takes; 0: it is not here."""
        presence = None if member_id is None else self._by_id.get(member_id)
        return 0 if presence is None else presence.metadata_bytes + MEMBER_BYTES

    def _count(self, presence: Presence) -> None:
        for name in presence.metadata:
            self._supporters[name] = self._supporters.get(name, 0) + 1
        self.metadata_bytes += presence.metadata_bytes

    def _discount(self, presence: Presence) -> None:
        for name in presence.metadata:  # Names come from clients: none is kept that nobody has.
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]
        self.metadata_bytes -= presence.metadata_bytes

    def _expect(self, deadline_ms: int) -> None:
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms


class HandedOutIds:
    """The ids that members were given and have not joined with yet (KIP-394).

    Attributes:
        earliest_ms: the monotonic time before which none of them is too old; None: there is none.
    """

    __slots__ = ("_deadlines", "earliest_ms")

    def __init__(self) -> None:
        """Begin with none."""
        self._deadlines: dict[str, int] = {}
        self.earliest_ms: int | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._deadlines)

    def __contains__(self, member_id: str) -> bool:
        """Whether somebody may still join with this id."""
        return member_id in self._deadlines

    def add(self, member_id: str, deadline_ms: int) -> None:
        """Hand one out, which becomes too old at that time."""
        self._deadlines[member_id] = deadline_ms
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms

    def remove(self, member_id: str) -> None:
        """Somebody has joined with it, or will not any more."""
        del self._deadlines[member_id]

    def expire(self, now_ms: int) -> None:
        """Forget those that are too old."""
        for member_id, deadline_ms in list(self._deadlines.items()):
            if now_ms >= deadline_ms:
                del self._deadlines[member_id]
        self.earliest_ms = min(self._deadlines.values(), default=None)
