"""What transactions have staged: counts, offsets, the group's member, and the latest messages.

The staged records are already in their logs, and the offsets with their groups. This state is
needed for responses and to recognise messages that are sent again; it is lost at a restart. A
transaction without state was begun before a restart: it is aborted, never committed.
"""

from asyncio import Future, Lock, get_running_loop, wait
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from broker.core.logs.log import Log
from broker.core.transactions.commands import Producer
from broker.model.limits import (
    CURSUS_STAGED_HERE_REMEMBERED,
    CURSUS_TRANSACTION_END_WAIT_MS,
    CURSUS_TRANSACTION_MESSAGES_REMEMBERED,
    CURSUS_TRANSACTIONS_REMEMBERED,
)

_START: Final = 5  # of the open transaction, in a log's producer state
Place = tuple[bytes, int]  # a topic's id and a partition


class Scope(NamedTuple):
    """The member and generation whose offsets a transaction commits."""

    topic: str
    group: str
    member: str
    generation: int


class _Message(NamedTuple):
    """A staged message."""

    topic: str
    sequence: int
    content: int  # a hash of its key and payload
    partition: int


class Staged:
    """The staged messages and offsets of one transaction."""

    __slots__ = ("_last", "messages", "offsets", "producer", "scope")

    def __init__(self, producer: Producer) -> None:
        """Start without messages and offsets."""
        self.producer = producer
        self.messages = 0
        self.offsets: dict[int, int] = {}  # partition → next offset to read
        self.scope: Scope | None = None
        self._last: dict[_Message, None] = {}  # oldest first

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was staged."""
        return not self.messages and not self.offsets

    def add(self, topic: str, sequence: int, content: tuple[bytes, bytes], partition: int) -> None:
        """Add a staged message."""
        self.messages += 1
        self._last[_Message(topic, sequence, hash(content), partition)] = None
        if len(self._last) > CURSUS_TRANSACTION_MESSAGES_REMEMBERED:
            del self._last[next(iter(self._last))]

    def partition_of(
        self, topic: str, sequence: int, content: tuple[bytes, bytes], wanted: int | None
    ) -> int | None:
        """Return the partition of a message that is sent again, None for a new message.

        It is compared with the last CURSUS_TRANSACTION_MESSAGES_REMEMBERED messages: sequence, key
        and payload must be equal, and the partition if one is `wanted`.
        """
        key = (topic, sequence, hash(content))
        for each in self._last:
            if each[:3] == key and wanted in (None, each.partition):
                return each.partition
        return None

    def end(self) -> None:
        """Keep the counts only: the transaction has ended."""
        self._last.clear()
        self.scope = None


class Transactions:
    """The staged state of open transactions, and of the latest ones that have ended."""

    __slots__ = ("_commits", "_locks", "_staged", "here")

    def __init__(self) -> None:
        """Start without transactions."""
        self.here = StagedHere()
        self._commits: dict[Future[None], str] = {}
        self._staged: dict[str, Staged] = {}
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def lock(self, name: str) -> Lock:
        """Return the lock of a transactional id, which serializes its commands."""
        return self._locks.setdefault(name, Lock())

    def begin(
        self, name: str, producer: Producer, is_unfinished: Callable[[Producer], bool]
    ) -> Staged:
        """Start the state of a new transaction.

        If there are too many, evict the oldest that is not `is_unfinished`, or else the oldest.
        """
        self._staged.pop(name, None)
        if len(self._staged) >= CURSUS_TRANSACTIONS_REMEMBERED:
            finished = (
                each for each, staged in self._staged.items() if not is_unfinished(staged.producer)
            )
            del self._staged[next(finished, None) or next(iter(self._staged))]
        staged = self._staged[name] = Staged(producer)
        return staged

    def of(self, name: str, producer: Producer) -> Staged | None:
        """Return the state of a producer's transaction, None if there is none."""
        staged = self._staged.get(name)
        return staged if staged is not None and staged.producer == producer else None

    def pending(self, scope: Scope, is_unfinished: Callable[[Producer], bool]) -> dict[int, int]:
        """Return the offsets, by partition, that a member's open transactions will commit."""
        offsets: dict[int, int] = {}
        for staged in self._staged.values():
            if staged.scope == scope and is_unfinished(staged.producer):
                for partition, offset in staged.offsets.items():
                    offsets[partition] = max(offset, offsets.get(partition, 0))
        return offsets

    @contextmanager
    def committing(self, group: str) -> Iterator[None]:
        """Mark a group as committing, from the check of its member until END_TXN is requested.

        From then on the transaction coordinator knows of the commit.
        """
        done: Future[None] = get_running_loop().create_future()
        self._commits[done] = group
        try:
            yield
        finally:
            del self._commits[done]
            done.set_result(None)

    async def wait_for_commit_requests(self, group: str) -> None:
        """Wait until no transaction of the group is in `committing`, for a bounded time.

        So the next owner of a member's partitions starts after the offsets of its commit.
        """
        commits = [done for done, each in self._commits.items() if each == group]
        if commits:
            await wait(commits, timeout=CURSUS_TRANSACTION_END_WAIT_MS / 1000)


class StagedHere:
    """The last message that each transaction of another broker has staged in a partition here.

    A coordinator that has got no answer to STAGE sends the message again when its client does.
    """

    def __init__(self) -> None:
        """Start without messages."""
        self._last: dict[tuple[Producer, Place], tuple[int, int, int]] = {}

    def add(self, producer: Producer, place: Place, content: int, base: int, end: int) -> None:
        """Remember a message by the hash of its contents, and its offsets; evict the oldest."""
        self._last.pop((producer, place), None)
        self._last[producer, place] = content, base, end
        if len(self._last) > CURSUS_STAGED_HERE_REMEMBERED:
            del self._last[next(iter(self._last))]

    def end_of(self, producer: Producer, place: Place, content: int, log: Log) -> int | None:
        """Return the end offset of a message that is sent again in an open transaction."""
        found = self._last.get((producer, place))
        known = log.active_producer(producer.producer_id)
        if found is None or known is None:
            return None
        last, base, end = found
        return end if last == content and 0 <= known[_START] <= base else None
