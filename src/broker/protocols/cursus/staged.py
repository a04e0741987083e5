"""What transactions have staged: counts, offsets, the group's member, and the latest messages.

The staged records are already in their logs, and the offsets with their groups. This state is
needed for responses and to recognise messages that are sent again; it is lost at a restart. A
transaction without state was begun before a restart: it is aborted, never committed.
"""

from asyncio import Future, Lock, get_running_loop, wait
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from broker.core.transactions.commands import Producer
from broker.model.limits import (
    CURSUS_TRANSACTION_END_WAIT_MS,
    CURSUS_TRANSACTION_MESSAGES_REMEMBERED,
    CURSUS_TRANSACTIONS_REMEMBERED,
)


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

    __slots__ = ("_commits", "_locks", "_staged")

    def __init__(self) -> None:
        """Start without transactions."""
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
