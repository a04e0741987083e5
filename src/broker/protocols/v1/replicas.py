"""What V1's clients report about replicas: the last offsets of followers, and partition roles.

This state exists for V1 only: it decides what V1's responses show of partitions with one replica,
and whether V1's producers may write a partition while this broker leads it. It is lost at a
restart, and another broker that leads the partition later has none of it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from broker.protocols.v1.errors import bad_request

LEADER: Final = 0  # the replica that is this broker
REPLICATION_FACTOR: Final = 3
LAG_TIMEOUT_MS: Final = 10_000

TopicPartition: TypeAlias = tuple[str, int]
RolesListener: TypeAlias = Callable[[int], None]


class _Follower(NamedTuple):
    last_offset: int  # of its last record; -1: it has none
    seen_ms: int


class _Partition:
    __slots__ = ("followers", "is_follower")

    def __init__(self) -> None:
        self.is_follower = False
        self.followers: dict[int, _Follower] = {}

    def is_idle(self, now_ms: int) -> bool:
        """Return whether it could be dropped without changing any response."""
        return not self.is_follower and not any(
            now_ms - each.seen_ms <= LAG_TIMEOUT_MS for each in self.followers.values()
        )


class Replicas:
    """Roles and followers of all partitions that clients have reported on; pure.

    Attributes:
        follower_count: the number of partitions whose role here is follower.
        on_roles_changed: called with `follower_count` after each change of a role.
    """

    __slots__ = ("_partitions", "_partitions_max", "follower_count", "on_roles_changed")

    def __init__(self, partitions_max: int) -> None:
        """Start without any; at most `partitions_max` partitions are kept."""
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._partitions_max = partitions_max
        self.follower_count = 0
        self.on_roles_changed: RolesListener = lambda _: None

    def is_follower(self, key: TopicPartition) -> bool:
        """Return whether this broker refuses V1's PRODUCE to the partition."""
        partition = self._partitions.get(key)
        return partition is not None and partition.is_follower

    def set_follower(self, key: TopicPartition, now_ms: int, *, is_follower: bool) -> None:
        """Set the role of a partition; what its followers have reported is kept."""
        if self.is_follower(key) == is_follower:
            return
        self._get_or_add(key, now_ms).is_follower = is_follower
        self.follower_count += 1 if is_follower else -1
        self.on_roles_changed(self.follower_count)

    def report(
        self, key: TopicPartition, replica: int, last_offset: int, leader_last: int, now_ms: int
    ) -> None:
        """Record a follower's last offset, which never falls and never exceeds the leader's."""
        followers = self._get_or_add(key, now_ms).followers
        known = followers.get(replica, _Follower(-1, now_ms)).last_offset
        followers[replica] = _Follower(max(known, min(last_offset, leader_last)), now_ms)

    def in_sync(self, key: TopicPartition, leader_last: int, now_ms: int) -> list[int]:
        """Return the leader, then the followers that have every record and reported recently.

        Recently is within LAG_TIMEOUT_MS.
        """
        partition = self._partitions.get(key)
        followers = {} if partition is None else partition.followers
        return [LEADER] + [
            replica
            for replica, each in sorted(followers.items())
            if each.last_offset >= leader_last and now_ms - each.seen_ms <= LAG_TIMEOUT_MS
        ]

    def forget_topic(self, topic: str) -> None:
        """Drop the state of a deleted topic, so that a new topic of its name starts without it."""
        deleted = [key for key in self._partitions if key[0] == topic]
        if not deleted:
            return
        for key in deleted:
            self.follower_count -= self._partitions.pop(key).is_follower
        self.on_roles_changed(self.follower_count)

    def _get_or_add(self, key: TopicPartition, now_ms: int) -> _Partition:
        partition = self._partitions.get(key)
        if partition is None:
            if len(self._partitions) >= self._partitions_max:
                self._drop_idle(now_ms)
            partition = self._partitions[key] = _Partition()
        return partition

    def _drop_idle(self, now_ms: int) -> None:
        kept = {key: each for key, each in self._partitions.items() if not each.is_idle(now_ms)}
        if len(kept) >= self._partitions_max:
            raise bad_request(f"replicas of {len(kept)} partitions are known, no more can be")
        self._partitions = kept
