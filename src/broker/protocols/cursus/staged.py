"""What open transactions have staged, as long as this broker runs.

The records are in their logs and the offsets with their groups already; here is what was said of
them, and what nobody else knows: how many there are, for which member of a group, and which
messages came last. A transaction of which nothing is known here is not committed: it was begun
before a restart, and is aborted.
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
    """Whose offsets a transaction commits: those of one member in one generation."""

    topic: str
    group: str
    member: str
    generation: int


class _Message(NamedTuple):
    """A message that was staged."""

    topic: str
    sequence: int
    content: int  # a hash of its key and payload
    partition: int


class Staged:
    """One transaction's."""

    __slots__ = ("_last", "messages", "offsets", "producer", "scope")

    def __init__(self, producer: Producer) -> None:
        """Begin with nothing."""
        self.producer = producer
        self.messages = 0
        self.offsets: dict[int, int] = {}  # the next to be read, by partition
        self.scope: Scope | None = None
        self._last: dict[_Message, None] = {}  # oldest first

    @property
    def is_empty(self) -> bool:
        """Whether nothing was staged."""
        return not self.messages and not self.offsets

    def add(self, topic: str, sequence: int, content: tuple[bytes, bytes], partition: int) -> None:
        """A message has been staged."""
        self.messages += 1
        self._last[_Message(topic, sequence, hash(content), partition)] = None
        if len(self._last) > CURSUS_TRANSACTION_MESSAGES_REMEMBERED:
            del self._last[next(iter(self._last))]

    def partition_of(
        self, topic: str, sequence: int, content: tuple[bytes, bytes], wanted: int | None
    ) -> int | None:
        """Where one of the last messages is that is now sent again, None for a new one.

        It is the same if its sequence, key and payload are; and the partition, where one is wanted.
        """
        key = (topic, sequence, hash(content))
        for each in self._last:
            if each[:3] == key and wanted in (None, each.partition):
                return each.partition
        return None

    def end(self) -> None:
        """Only the numbers are of interest now."""
        self._last.clear()
        self.scope = None


class Transactions:
    """Of all transactional ids, those that are open and, of the others, those that began last."""

    __slots__ = ("_commits", "_locks", "_staged")

    def __init__(self) -> None:
        """Know none."""
        self._commits: dict[Future[None], str] = {}
        self._staged: dict[str, Staged] = {}
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def lock(self, name: str) -> Lock:
        """Held while a command of a transactional id is served: a client may have repeated it."""
        return self._locks.setdefault(name, Lock())

    def begin(
        self, name: str, producer: Producer, is_unfinished: Callable[[Producer], bool]
    ) -> Staged:
        """A transaction begins; `is_unfinished` says which of the others must stay."""
        self._staged.pop(name, None)
        if len(self._staged) >= CURSUS_TRANSACTIONS_REMEMBERED:
            over = (
                each for each, staged in self._staged.items() if not is_unfinished(staged.producer)
            )
            del self._staged[next(over, None) or next(iter(self._staged))]
        staged = self._staged[name] = Staged(producer)
        return staged

    def of(self, name: str, producer: Producer) -> Staged | None:
        """What a producer's transaction has staged; None: this broker does not know."""
        staged = self._staged.get(name)
        return staged if staged is not None and staged.producer == producer else None

    def pending(self, scope: Scope, is_unfinished: Callable[[Producer], bool]) -> dict[int, int]:
        """The offsets by partition that a member's transactions will commit unless they abort."""
        offsets: dict[int, int] = {}
        for staged in self._staged.values():
            if staged.scope == scope and is_unfinished(staged.producer):
                for partition, offset in staged.offsets.items():
                    offsets[partition] = max(offset, offsets.get(partition, 0))
        return offsets

    @contextmanager
    def commit_of(self, group: str) -> Iterator[None]:
        """Held from the check of a group's member until its transaction's commit is asked for.

        From then on the coordinator knows of it.
        """
        done: Future[None] = get_running_loop().create_future()
        self._commits[done] = group
        try:
            yield
        finally:
            del self._commits[done]
            done.set_result(None)

    async def commits_are_asked_for(self, group: str) -> None:
        """Wait for those checks: who has a member's partitions next begins behind its commit."""
        commits = [done for done, each in self._commits.items() if each == group]
        if commits:
            await wait(commits, timeout=CURSUS_TRANSACTION_END_WAIT_MS / 1000)
