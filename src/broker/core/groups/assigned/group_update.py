"""The changes that one command makes to an assigned group, written as one record."""

from collections.abc import Iterable

from broker.core.groups.assigned.assignors import assign
from broker.core.groups.assigned.images import AssignedImage, AssignedMember
from broker.core.groups.commands.assigned import NEW_GROUP_GENERATION, Assignor

_GENERATION_MAX = (1 << 31) - 1  # the record has an int32


class AssignedGroupUpdate:
    """A mutable copy of a group's state; every change increments the generation."""

    def __init__(self, image: AssignedImage) -> None:
        """Begin with the current state."""
        self.topic = image.topic
        self.assignor = image.assignor
        self.generation = image.generation
        self.members = dict(image.members)
        self.reasons: list[str] = []
        self._before = image

    @property
    def is_changed(self) -> bool:
        """Whether there is a record to write."""
        return bool(self.reasons)

    def change_topic(self, topic: str) -> None:
        """Change the topic, and remove all members."""
        self.topic = topic
        self.members.clear()
        self._bump_generation(f"the group reads topic {topic} now")

    def change_assignor(self, assignor: Assignor) -> None:
        """Change the assignor."""
        self.assignor = assignor
        self._bump_generation(f"a member asked for assignor {assignor.value}")

    def add_member(self, member: AssignedMember) -> None:
        """Add a member."""
        self.members[member.member_id] = member
        self._bump_generation(f"member {member.member_id} joined")

    def remove_members(self, member_ids: Iterable[str], why: str) -> None:
        """Remove members."""
        gone = list(member_ids)
        for each in gone:
            del self.members[each]
        others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        self._bump_generation(f"member {gone[0]}{others} {why}")

    def change_partition_count(self, partition_count: int) -> None:
        """Note that the topic has another number of partitions than are assigned."""
        self._bump_generation(f"topic {self.topic} has {partition_count} partitions now")

    def new_image(self, partition_count: int, wall_ms: int) -> AssignedImage:
        """Return the new state, with all partitions assigned."""
        shares = assign(self.assignor, self.members, partition_count)
        members = {
            member_id: each._replace(partitions=shares[member_id])
            for member_id, each in self.members.items()
        }
        return AssignedImage(
            self._before.protocol, self.topic, self.assignor, self.generation, members, wall_ms
        )

    def _bump_generation(self, reason: str) -> None:
        is_last = self.generation >= _GENERATION_MAX
        self.generation = NEW_GROUP_GENERATION if is_last else self.generation + 1
        self.reasons.append(reason)
