"""A partition's log as core uses it, and waiting for one: until durable, or until it grows."""

from asyncio import Future, get_running_loop
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from broker.model.errors import ErrorCode, RequestError


class Log(Protocol):
    """What core asks of a partition's log; the native `PartitionLog` is one."""

    @property
    def partition(self) -> int:
        """The partition's number in its topic."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can still be read."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given out."""

    @property
    def high_watermark(self) -> int:
        """The end of what anybody may read, exclusive."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what a reader of committed records may read, exclusive."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of appends from now on."""

    @property
    def is_offline(self) -> bool:
        """Whether the disk failed under this log; it stays offline for good."""

    def append(self, records: bytes) -> tuple[int, int, int]:
        """Append a client's batch: Kafka's error number, base offset, append time or -1."""

    def read(self, offset: int, max_bytes: int, committed: bool) -> bytes:  # noqa: FBT001
        """Whole batches from the one that holds `offset`; at least one if any is readable."""

    def when_durable(self, offset: int, callback: Callable[[bool], None]) -> None:
        """Call back once the high watermark is at `offset`: True; False if the log failed."""

    def find_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record at or after a time."""

    def find_max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the latest record."""

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to the given one, and where it ended; (-1, -1) for none."""


def check_leader_epoch(log: Log, current_leader_epoch: int) -> None:
    """Refuse a client that knows another leader epoch (KIP-320); -1: it knows none."""
    if current_leader_epoch == -1:
        return
    if current_leader_epoch < log.leader_epoch:
        raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
    if current_leader_epoch > log.leader_epoch:
        raise RequestError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def epoch_at(log: Log, offset: int) -> int:
    """The leader epoch in which a record was appended; the current one at the log's end."""
    epoch = log.leader_epoch
    while epoch > 0:
        older, end = log.epoch_end(epoch - 1)
        if older == -1 or end <= offset:
            break
        epoch = older
    return epoch


async def wait_durable(log: Log, offset: int) -> bool:
    """Wait until the high watermark is at `offset`; False when the log failed before."""
    if log.high_watermark >= offset:
        return True
    durable: Future[bool] = get_running_loop().create_future()

    def finish(is_durable: bool) -> None:  # noqa: FBT001 - the log's callback
        if not durable.done():  # a closed connection has cancelled it
            durable.set_result(is_durable)

    log.when_durable(offset, finish)
    return await durable


class Growth:
    """Wakes who waits for a log to grow.

    However many wait, and however often in vain, a log has at most one callback from here: what is
    remembered is bounded by the number of logs and of waiting requests.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self._waiting: dict[Log, set[Future[None]]] = {}

    async def wait(self, logs: Iterable[Log], timeout_seconds: float) -> None:
        """Return when one of the logs grows or fails, or when the time is over."""
        loop = get_running_loop()
        woken: Future[None] = loop.create_future()
        sets = [self._waiters(log) for log in logs]
        for waiters in sets:
            waiters.add(woken)
        timer = loop.call_later(timeout_seconds, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()
            for waiters in sets:
                waiters.discard(woken)

    def _waiters(self, log: Log) -> set[Future[None]]:
        waiters = self._waiting.get(log)
        if waiters is None:
            waiters = self._waiting[log] = set()
            log.when_durable(log.high_watermark + 1, partial(self._grew, log))
        return waiters

    def _grew(self, log: Log, _is_durable: bool) -> None:  # noqa: FBT001 - the log's callback
        for woken in self._waiting.pop(log, ()):
            _wake(woken)


def _wake(woken: Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
