"""Requests that wait briefly for the end of a transaction, to begin the next one.

A producer of KIP-890 writes as soon as its end is decided. Without this wait, it would have to
retry, and log a warning, after each transaction. Kafka's broker waits for the same time
(add.partitions.to.txn.retry.backoff.max.ms).
"""

from asyncio import Future

from broker.core.coordination.coordinator import put_response
from broker.core.coordination.partitions import Environment
from broker.model.limits import CONCURRENT_TRANSACTION_WAIT_MS


class TransactionWaiters:
    """Waiting requests by transactional id, with their deadlines."""

    def __init__(self, environment: Environment) -> None:
        """Start without waiters."""
        self._environment = environment
        self._waiting: dict[str, list[tuple[int, Future[None]]]] = {}

    def wait(self, transactional_id: str) -> Future[None]:
        """Return a future that is done when the id's transaction has ended, or after a timeout."""
        future: Future[None] = self._environment.create_future()
        deadline_ms = self._environment.clock.monotonic_ms() + CONCURRENT_TRANSACTION_WAIT_MS
        self._waiting.setdefault(transactional_id, []).append((deadline_ms, future))
        self._environment.wake_at(deadline_ms)
        return future

    def ended(self, transactional_id: str) -> None:
        """Wake the waiters of an id whose transaction has ended."""
        for _, future in self._waiting.pop(transactional_id, ()):
            put_response(future, None)

    def tick(self) -> None:
        """Wake those whose timeout is over."""
        now_ms = self._environment.clock.monotonic_ms()
        for transactional_id, waiting in list(self._waiting.items()):
            left = [each for each in waiting if each[0] > now_ms]
            for _, future in waiting[: len(waiting) - len(left)]:
                put_response(future, None)
            if left:
                self._waiting[transactional_id] = left
            else:
                del self._waiting[transactional_id]

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline; None: nothing waits."""
        return min((waiting[0][0] for waiting in self._waiting.values()), default=None)
