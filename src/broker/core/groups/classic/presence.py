"""The sessions and protocols of a classic group's members.

Nothing here is written to the log: after a load members have a full session timeout. What a join
must know of all other members (supported protocols, bytes of subscriptions, instance ids, the next
deadline) is kept up to date as members join and leave, so the cost of a join does not depend on the
size of the group.
"""

from collections.abc import Iterable, Mapping

from broker.core.groups.commands.classic import GroupProtocol
from broker.model.limits import MEMBER_BYTES


class Presence:
    """The state of a member that is not in its record."""

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
        """Create it from a member's join."""
        self.instance_id = instance_id
        self.session_deadline_ms = session_deadline_ms
        self.is_new = is_new
        self.protocols = protocols
        # If a name is given twice, the first one counts.
        self.metadata: Mapping[str, bytes] = dict(reversed(protocols))
        self.metadata_bytes = sum([protocol.size for protocol in protocols])


class GroupPresence:
    """The presence of each member of one group, by member id, and sums over them."""

    __slots__ = ("_by_id", "_instances", "_supporters", "earliest_ms", "metadata_bytes")

    def __init__(self) -> None:
        """Begin without members."""
        self._by_id: dict[str, Presence] = {}
        self._instances: dict[str, str] = {}
        self._supporters: dict[str, int] = {}
        self.metadata_bytes = 0
        # No session ends before this. A heartbeat moves the member's own deadline, not this bound.
        self.earliest_ms: int | None = None

    def __getitem__(self, member_id: str) -> Presence:
        """Return the presence of a member."""
        return self._by_id[member_id]

    def add(self, member_id: str, presence: Presence) -> None:
        """Add a member."""
        self._by_id[member_id] = presence
        if presence.instance_id is not None:
            self._instances[presence.instance_id] = member_id
        self._add_protocols(presence)
        self._lower_earliest(presence.session_deadline_ms)

    def remove(self, member_id: str) -> Presence:
        """Remove a member."""
        presence = self._by_id.pop(member_id)
        if presence.instance_id is not None:
            del self._instances[presence.instance_id]
        self._remove_protocols(presence)
        return presence

    def set_protocols(self, member_id: str, protocols: tuple[GroupProtocol, ...]) -> None:
        """Replace the protocols of a member that joins again."""
        old = self._by_id[member_id]
        if old.protocols != protocols:
            self._remove_protocols(old)
            new = Presence(old.instance_id, protocols, old.session_deadline_ms, is_new=old.is_new)
            self._by_id[member_id] = new
            self._add_protocols(new)

    def set_session_deadline(self, member_id: str, deadline_ms: int) -> None:
        """Set the end of a member's session."""
        self._by_id[member_id].session_deadline_ms = deadline_ms
        self._lower_earliest(deadline_ms)

    def update_earliest(self) -> None:
        """Compute when the next session can end."""
        deadlines = (presence.session_deadline_ms for presence in self._by_id.values())
        self.earliest_ms = min(deadlines, default=None)

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the current member id of an instance."""
        return self._instances.get(instance_id)

    def supports(self, names: Iterable[str], *, excluding: str | None) -> bool:
        """Return whether all members but the excluded one support one of these protocols."""
        excluded = None if excluding is None else self._by_id.get(excluding)
        own_names: Mapping[str, bytes] = {} if excluded is None else excluded.metadata
        others = len(self._by_id) - (excluded is not None)
        count = self._supporters.get
        return any(count(name, 0) - (name in own_names) == others for name in names)

    def has_others(self, member_id: str | None) -> bool:
        """Return whether there are members besides this one."""
        return len(self._by_id) > (member_id in self._by_id)

    def metadata_bytes_without(self, member_id: str | None) -> int:
        """Return the bytes of all members' subscriptions but the excluded one's."""
        excluded = None if member_id is None else self._by_id.get(member_id)
        return self.metadata_bytes - (0 if excluded is None else excluded.metadata_bytes)

    @property
    def memory_bytes(self) -> int:
        """The size of all members in memory, as memory.py counts it."""
        return self.metadata_bytes + len(self._by_id) * MEMBER_BYTES

    def memory_bytes_of(self, member_id: str | None) -> int:
        """Return the size of one member in memory; 0 if it is not in the group."""
        presence = None if member_id is None else self._by_id.get(member_id)
        return 0 if presence is None else presence.metadata_bytes + MEMBER_BYTES

    def _add_protocols(self, presence: Presence) -> None:
        for name in presence.metadata:
            self._supporters[name] = self._supporters.get(name, 0) + 1
        self.metadata_bytes += presence.metadata_bytes

    def _remove_protocols(self, presence: Presence) -> None:
        for name in (
            presence.metadata
        ):  # Names come from clients: unused ones are dropped, to bound memory.
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]
        self.metadata_bytes -= presence.metadata_bytes

    def _lower_earliest(self, deadline_ms: int) -> None:
        if self.earliest_ms is None or deadline_ms < self.earliest_ms:
            self.earliest_ms = deadline_ms
