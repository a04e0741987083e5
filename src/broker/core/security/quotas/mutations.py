"""The quota of partitions that are created, added and deleted: a bucket of tokens (KIP-599).

It fills by its rate up to as many tokens as all windows have, and is full at first. A change is
admitted while the bucket is not below zero, and may take it there, whatever its size: so a topic
with many partitions can be created, and what follows has to wait.
"""

from broker.core.security.quotas.windows import Windows

_MS_PER_SECOND = 1000
_THROTTLE_MS_MAX = (1 << 31) - 1  # that an answer can tell: 24 days


class MutationBucket:
    """The tokens of one owner of a quota; times are of a monotonic clock."""

    __slots__ = ("_seconds", "_tokens", "_updated_ms", "bound", "is_dropped", "used_ms")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        """Start full."""
        self.bound = bound  # per second
        self.used_ms = now_ms
        self.is_dropped = False  # another bucket counts for its owner from now on
        self._seconds = windows.total_ms / _MS_PER_SECOND
        self._tokens = bound * self._seconds
        self._updated_ms = now_ms

    def deficit_ms(self, now_ms: int) -> int:
        """Return in what time the bucket is not below zero; 0: it is not."""
        self._fill(now_ms)
        if self._tokens >= 0:
            return 0
        deficit_ms = min(-self._tokens / self.bound * _MS_PER_SECOND, _THROTTLE_MS_MAX)
        return max(1, round(deficit_ms))

    def take(self, count: int, now_ms: int) -> None:
        """Take so many tokens, whether they are there or not."""
        self._fill(now_ms)
        self._tokens -= count

    def _fill(self, now_ms: int) -> None:
        gained = self.bound * (now_ms - self._updated_ms) / _MS_PER_SECOND
        self._tokens = min(self.bound * self._seconds, self._tokens + gained)
        self.used_ms = self._updated_ms = now_ms
