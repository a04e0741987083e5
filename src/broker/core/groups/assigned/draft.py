"""A group as a command will leave it: every change raises the generation, all are one record."""

from collections.abc import Iterable

from broker.core.groups.assigned.assignors import assign
from broker.core.groups.assigned.commands import NEW_GROUP_GENERATION, Assignor
from broker.core.groups.assigned.images import AssignedImage, AssignedMember

_GENERATION_MAX = (1 << 31) - 1  # what a record can say


class Draft:
    """Begins with what the log says; `image` is what it shall say."""

    def __init__(self, image: AssignedImage) -> None:
        """Take the group as it is."""
        self.topic = image.topic
        self.assignor = image.assignor
        self.generation = image.generation
        self.members = dict(image.members)
        self.reasons: list[str] = []
        self._before = image

    @property
    def is_changed(self) -> bool:
        """Whether there is something to write."""
        return bool(self.reasons)

    def read_topic(self, topic: str) -> None:
        """Read another topic, with nobody who read the old one."""
        self.topic = topic
        self.members.clear()
        self._bump(f"the group reads topic {topic} now")

    def assign_by(self, assignor: Assignor) -> None:
        """Assign in another way."""
        self.assignor = assignor
        self._bump(f"a member asked for assignor {assignor.value}")

    def admit(self, member: AssignedMember) -> None:
        """Let a member in."""
        self.members[member.member_id] = member
        self._bump(f"member {member.member_id} joined")

    def remove(self, member_ids: Iterable[str], why: str) -> None:
        """Let members go."""
        gone = list(member_ids)
        for each in gone:
            del self.members[each]
        others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        self._bump(f"member {gone[0]}{others} {why}")

    def resize(self, partition_count: int) -> None:
        """The topic has another number of partitions than was assigned."""
        self._bump(f"topic {self.topic} has {partition_count} partitions now")

    def image(self, partition_count: int, wall_ms: int) -> AssignedImage:
        """The group with all its partitions assigned, from now on."""
        shares = assign(self.assignor, self.members, partition_count)
        members = {
            member_id: each._replace(partitions=shares[member_id])
            for member_id, each in self.members.items()
        }
        return AssignedImage(
            self._before.protocol, self.topic, self.assignor, self.generation, members, wall_ms
        )

    def _bump(self, reason: str) -> None:
        is_last = self.generation >= _GENERATION_MAX
        self.generation = NEW_GROUP_GENERATION if is_last else self.generation + 1
        self.reasons.append(reason)
