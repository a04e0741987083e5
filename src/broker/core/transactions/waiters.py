"""Those who wait for a transaction's markers, a little, to begin the next one.

A producer of KIP-890 writes as soon as its end is decided. It would be told to come again, and its
log would warn of it, at each transaction; Kafka's broker tries again by itself for as long
(add.partitions.to.txn.retry.backoff.max.ms).
"""

from asyncio import Future

from broker.core.coordinator_partitions import Environment
from broker.model.limits import CONCURRENT_TRANSACTION_WAIT_MS


class TransactionWaiters:
    """Who waits for which transactional id, and until when."""

    def __init__(self, environment: Environment) -> None:
        """Nobody waits."""
        self._environment = environment
        self._waiting: dict[str, list[tuple[int, Future[None]]]] = {}

    def wait(self, transactional_id: str) -> Future[None]:
        """Done when the id's transaction has ended, or when that has taken too long."""
        future: Future[None] = self._environment.create_future()
        deadline_ms = self._environment.clock.monotonic_ms() + CONCURRENT_TRANSACTION_WAIT_MS
        self._waiting.setdefault(transactional_id, []).append((deadline_ms, future))
        self._environment.wake_at(deadline_ms)
        return future

    def ended(self, transactional_id: str) -> None:
        """The transaction of an id has ended."""
        for _, future in self._waiting.pop(transactional_id, ()):
            _finish(future)

    def tick(self) -> None:
        """Let those go who have waited for long enough."""
        now_ms = self._environment.clock.monotonic_ms()
        for transactional_id, waiting in list(self._waiting.items()):
            left = [each for each in waiting if each[0] > now_ms]
            for _, future in waiting[: len(waiting) - len(left)]:
                _finish(future)
            if left:
                self._waiting[transactional_id] = left
            else:
                del self._waiting[transactional_id]

    def next_deadline_ms(self) -> int | None:
        """When somebody will have waited for long enough; None: nobody waits."""
        return min((waiting[0][0] for waiting in self._waiting.values()), default=None)


def _finish(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)
