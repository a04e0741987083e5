"""What the owners of quotas have used: a bucket each, for a bounded number of owners.

Clients choose their ids, so owners come without end. Above the limit the bucket that was made first
goes, unless it has been used within the windows: then it gets a second chance, as long as one turn
may search. An owner whose bucket is dropped starts with an empty one.
"""

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from broker.model.security_limits import QUOTA_BUCKETS_SEARCHED


class Bucket(Protocol):
    """What a bucket of any kind has."""

    @property
    def used_ms(self) -> int:
        """When it was last used."""

    bound: float
    is_dropped: bool


_BucketT = TypeVar("_BucketT", bound=Bucket)


class Buckets(Generic[_BucketT]):
    """The buckets of all owners of one kind of quota."""

    def __init__(
        self, make: Callable[[float, int], _BucketT], count_max: int, kept_ms: int
    ) -> None:
        """Begin without owners.

        Args:
            make: makes a bucket from its bound and the time.
            count_max: how many owners there may be.
            kept_ms: after this time without use a bucket is as good as a new one.
        """
        self._make = make
        self._count_max = count_max
        self._kept_ms = kept_ms
        self._buckets: dict[Hashable, _BucketT] = {}

    def __len__(self) -> int:
        """Return how many owners have a bucket."""
        return len(self._buckets)

    def of(self, owner: Hashable, bound: float, now_ms: int) -> _BucketT:
        """Return the bucket of an owner, with this bound from now on."""
        bucket = self._buckets.get(owner)
        if bucket is None:
            if len(self._buckets) >= self._count_max:
                self._drop_one(now_ms)
            bucket = self._buckets[owner] = self._make(bound, now_ms)
        elif bucket.bound != bound:
            bucket.bound = bound
        return bucket

    def _drop_one(self, now_ms: int) -> None:
        for _ in range(QUOTA_BUCKETS_SEARCHED):
            owner = next(iter(self._buckets))
            bucket = self._buckets.pop(owner)
            if now_ms - bucket.used_ms >= self._kept_ms:
                bucket.is_dropped = True
                return
            self._buckets[owner] = bucket
        owner = next(iter(self._buckets))
        self._buckets.pop(owner).is_dropped = True
