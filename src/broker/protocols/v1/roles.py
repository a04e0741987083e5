"""Roles of partitions that V1's clients have set: they decide whether V1's producers may write.

A role exists for V1 only, while this broker leads the partition. It is lost at a restart, and
another broker that leads the partition later knows nothing of it.
"""

from collections.abc import Callable
from typing import TypeAlias

from broker.protocols.v1.errors import bad_request

TopicPartition: TypeAlias = tuple[str, int]
RolesListener: TypeAlias = Callable[[int], None]


class Roles:
    """The partitions whose role here is follower; pure.

    Attributes:
        on_changed: called with the number of followers after each change.
    """

    __slots__ = ("_followers", "_followers_max", "on_changed")

    def __init__(self, followers_max: int) -> None:
        """Start without any; at most `followers_max` partitions may have this role."""
        self._followers: set[TopicPartition] = set()
        self._followers_max = followers_max
        self.on_changed: RolesListener = lambda _: None

    def is_follower(self, key: TopicPartition) -> bool:
        """Return whether this broker refuses V1's PRODUCE to the partition."""
        return key in self._followers

    def set_follower(self, key: TopicPartition, *, is_follower: bool) -> None:
        """Set the role of a partition.

        Raises:
            RefusedError: as many partitions have the role of a follower as may.
        """
        if self.is_follower(key) == is_follower:
            return
        if not is_follower:
            self._followers.remove(key)
        elif len(self._followers) < self._followers_max:
            self._followers.add(key)
        else:
            raise bad_request(f"{self._followers_max} partitions are followers, no more can be")
        self.on_changed(len(self._followers))

    def forget_topic(self, topic: str) -> None:
        """Drop the roles of a deleted topic, so that a new topic of its name starts without it."""
        deleted = {key for key in self._followers if key[0] == topic}
        if deleted:
            self._followers -= deleted
            self.on_changed(len(self._followers))
