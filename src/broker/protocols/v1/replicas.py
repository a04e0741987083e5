"""What V1's clients have said about replicas: how far followers are, and who leads a partition.

There is one copy of every partition, and this broker has it. The bookkeeping is V1's own: it
decides what V1 shows and where V1's producers may write. Nothing of it is kept over a restart.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from broker.protocols.v1.errors import bad_request

LEADER: Final = 0  # the replica that is this broker
REPLICATION_FACTOR: Final = 3
LAG_TIMEOUT_MS: Final = 10_000

Place: TypeAlias = tuple[str, int]  # topic, partition
RolesChange: TypeAlias = Callable[[int], None]


class _Follower(NamedTuple):
    last_offset: int  # the last record that it has, -1: none
    seen_ms: int


class _Partition:
    __slots__ = ("followers", "is_follower")

    def __init__(self) -> None:
        self.is_follower = False
        self.followers: dict[int, _Follower] = {}

    def is_idle(self, now_ms: int) -> bool:
        """Whether it shows nothing that a partition nobody has spoken of does not show."""
        return not self.is_follower and not any(
            now_ms - each.seen_ms <= LAG_TIMEOUT_MS for each in self.followers.values()
        )


class Replicas:
    """Roles and followers of all partitions that somebody has spoken of; pure."""

    __slots__ = ("_partitions", "_partitions_max", "follower_count", "when_roles_change")

    def __init__(self, partitions_max: int) -> None:
        """Remember so many partitions at most."""
        self._partitions: dict[Place, _Partition] = {}
        self._partitions_max = partitions_max
        self.follower_count = 0  # partitions that this broker does not lead
        # Called behind each change of a role, with how many those are.
        self.when_roles_change: RolesChange = lambda _: None

    def is_follower(self, place: Place) -> bool:
        """Whether V1's clients are to write the partition elsewhere."""
        partition = self._partitions.get(place)
        return partition is not None and partition.is_follower

    def set_follower(self, place: Place, now_ms: int, *, is_follower: bool) -> None:
        """Take a role; the followers stay what they are."""
        if self.is_follower(place) == is_follower:
            return
        self._remembered(place, now_ms).is_follower = is_follower
        self.follower_count += 1 if is_follower else -1
        self.when_roles_change(self.follower_count)

    def report(
        self, place: Place, replica: int, last_offset: int, leader_last: int, now_ms: int
    ) -> None:
        """A follower says what it has: never less than before, never more than there is."""
        followers = self._remembered(place, now_ms).followers
        known = followers.get(replica, _Follower(-1, now_ms)).last_offset
        followers[replica] = _Follower(max(known, min(last_offset, leader_last)), now_ms)

    def in_sync(self, place: Place, leader_last: int, now_ms: int) -> list[int]:
        """The replicas that have all there is and were heard of lately; the leader is first."""
        partition = self._partitions.get(place)
        followers = {} if partition is None else partition.followers
        return [LEADER] + [
            replica
            for replica, each in sorted(followers.items())
            if each.last_offset >= leader_last and now_ms - each.seen_ms <= LAG_TIMEOUT_MS
        ]

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: another one of its name begins anew."""
        gone = [place for place in self._partitions if place[0] == topic]
        if not gone:
            return
        for place in gone:
            self.follower_count -= self._partitions.pop(place).is_follower
        self.when_roles_change(self.follower_count)

    def _remembered(self, place: Place, now_ms: int) -> _Partition:
        partition = self._partitions.get(place)
        if partition is None:
            if len(self._partitions) >= self._partitions_max:
                self._forget_idle(now_ms)
            partition = self._partitions[place] = _Partition()
        return partition

    def _forget_idle(self, now_ms: int) -> None:
        kept = {place: each for place, each in self._partitions.items() if not each.is_idle(now_ms)}
        if len(kept) >= self._partitions_max:
            raise bad_request(f"replicas of {len(kept)} partitions are known, no more can be")
        self._partitions = kept
