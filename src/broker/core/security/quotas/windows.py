"""Over how much time a rate is measured, and buckets that measure so."""

from typing import NamedTuple

from broker._native.wire.quota import QuotaBucket
from broker.model.config import Config
from broker.model.security_limits import (
    QUOTA_BUCKET_BYTES,
    QUOTA_BUCKETS_BYTES_MAX,
    QUOTA_SAMPLE_BYTES,
)

_MS_PER_SECOND = 1000


class Windows(NamedTuple):
    """Some windows of one length."""

    number: int
    size_ms: int

    @classmethod
    def of_rates(cls, config: Config) -> "Windows":
        """Return those of the rates of clients and connections."""
        seconds = config.integer("quota.window.size.seconds")
        return cls(config.integer("quota.window.num"), seconds * _MS_PER_SECOND)

    @classmethod
    def of_mutations(cls, config: Config) -> "Windows":
        """Return those of partitions that are created and deleted."""
        seconds = config.integer("controller.quota.window.size.seconds")
        return cls(config.integer("controller.quota.window.num"), seconds * _MS_PER_SECOND)

    @property
    def total_ms(self) -> int:
        """The time of all of them."""
        return self.number * self.size_ms

    @property
    def buckets_max(self) -> int:
        """How many buckets with a sample per window there may be."""
        size = QUOTA_BUCKET_BYTES + (self.number + 1) * QUOTA_SAMPLE_BYTES
        return max(1, QUOTA_BUCKETS_BYTES_MAX // size)

    def bucket(self, bound: float, now_ms: int) -> QuotaBucket:
        """Return an empty bucket."""
        bucket = QuotaBucket(bound, self.number, self.size_ms)
        bucket.used_ms = now_ms
        return bucket

    def forgiving_bucket(self, bound: float, now_ms: int) -> QuotaBucket:
        """Return a bucket whose owner never has to rest for longer than one window."""
        bucket = QuotaBucket(bound, self.number, self.size_ms, throttle_ms_max=self.size_ms)
        bucket.used_ms = now_ms
        return bucket
