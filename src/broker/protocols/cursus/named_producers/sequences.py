"""The sequences of each producer in a partition, and which records of a batch are new. Pure.

A producer numbers its records from 1, anew in each epoch. Its client has a few batches in flight,
which may overtake each other: so an early batch is accepted, and the gap is remembered until it is
filled. A batch too far ahead is refused, and so is one of an older epoch. Records that arrived
before are not stored again, one by one, however a retry splits them into batches.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.model.errors import PolylogError
from broker.model.limits import NAMED_PRODUCER_BATCHES_AHEAD


class Run(NamedTuple):
    """Consecutive records with consecutive sequences; first and last 0: they are not checked."""

    producer_id: bytes
    epoch: int
    first: int
    last: int
    records: int


class SequenceError(PolylogError):
    """A batch with impossible sequences: none of it is stored."""


class StaleEpochError(SequenceError):
    """A batch of an older epoch than its producer's newest."""


class _Producer:
    """What has arrived in a producer's epoch: all up to `done`, then the ranges of `ahead`."""

    __slots__ = ("ahead", "done", "epoch", "gaps", "largest", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.done = 0
        self.ahead: list[tuple[int, int]] = []  # ascending, with gaps between them
        self.largest = 0  # batch that has arrived, in records
        self.gaps = 0  # the value of Sequences._gaps when it was seen last, see begin_gap

    def copy(self) -> "_Producer":
        other = _Producer(self.epoch, self.seen_ms)
        other.done, other.largest = self.done, self.largest
        other.ahead = list(self.ahead)
        return other

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the parts of a range that have not arrived, ascending."""
        found = []
        start = max(first, self.done + 1)
        for has_first, has_last in self.ahead:
            if has_last < start:
                continue
            if has_first > last:
                break
            if has_first > start:
                found.append((start, has_first - 1))
            start = has_last + 1
        if start <= last:
            found.append((start, last))
        return found

    def take(self, first: int, last: int) -> None:
        """Record the arrival of a range."""
        if first <= self.done + 1:
            self.done = max(self.done, last)
        elif self.ahead and self.ahead[-1][1] + 1 == first:
            self.ahead[-1] = (self.ahead[-1][0], last)  # the usual case while a log is read
        else:
            self.ahead.append((first, last))
            self._join()
        while self.ahead and self.ahead[0][0] <= self.done + 1:
            self.done = max(self.done, self.ahead.pop(0)[1])

    def close_gap_before(self, first: int) -> None:
        """Record everything between the last arrival and this one as arrived."""
        newest = self.ahead[-1][1] if self.ahead else self.done
        if first > newest + 1:
            self.take(newest + 1, first - 1)

    def _join(self) -> None:
        joined: list[tuple[int, int]] = []
        for first, last in sorted(self.ahead):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        self.ahead = joined


class ProducerCheckpoint(NamedTuple):
    """The state of a producer in a checkpoint."""

    producer_id: bytes
    epoch: int
    done: int
    largest: int
    seen_ms: int
    ahead: tuple[tuple[int, int], ...]


class Plan(NamedTuple):
    """The records of a batch that are to be stored, and the arrivals to replay then."""

    kept: list[range]  # indexes of records in the batch, ascending
    arrivals: list[Run]


class Sequences:
    """All producers of one partition."""

    __slots__ = ("_gaps", "_producers", "_producers_max")

    def __init__(self, producers_max: int) -> None:
        """Start without producers; above the limit the longest silent one is evicted."""
        self._producers: dict[bytes, _Producer] = {}  # ordered by their last arrival
        self._producers_max = producers_max
        self._gaps = 0

    def __len__(self) -> int:
        """Return how many producers are known."""
        return len(self._producers)

    def plan(self, runs: Iterable[Run], *, batch_assumed: int) -> Plan:
        """Determine which records of a batch are new; SequenceError when it is refused.

        `batch_assumed` stands in for the size of a producer's batches, in records, while none has
        arrived. Nothing changes.
        """
        changed: dict[bytes, _Producer] = {}
        kept: list[range] = []
        arrivals: list[Run] = []
        place = 0
        for run in runs:
            start = place
            place += run.records
            if run.last == 0:
                kept.append(range(start, place))
                continue
            producer = changed.get(run.producer_id) or self._as_of(run)
            if run.epoch > producer.epoch:
                producer = _Producer(run.epoch, 0)
            changed[run.producer_id] = producer
            _check(producer, run, batch_assumed)
            for first, last in producer.missing(run.first, run.last):
                kept.append(range(start + first - run.first, start + last - run.first + 1))
                arrivals.append(run._replace(first=first, last=last, records=last - first + 1))
            producer.take(run.first, run.last)
            producer.largest = max(producer.largest, run.records)
        for producer in changed.values():
            if len(producer.ahead) > NAMED_PRODUCER_BATCHES_AHEAD:
                text = f"idempotency gap: more than {NAMED_PRODUCER_BATCHES_AHEAD} of them"
                raise SequenceError(text)
        return Plan(kept, arrivals)

    def _as_of(self, run: Run) -> _Producer:
        known = self._producers.get(run.producer_id)
        return _Producer(run.epoch, 0) if known is None else known.copy()

    def replay(self, arrivals: Iterable[Run], now_ms: int) -> None:
        """Record the arrival of stored records."""
        for run in arrivals:
            producer = self._producers.pop(run.producer_id, None)
            if producer is None or run.epoch > producer.epoch:
                self._evict()
                producer = _Producer(run.epoch, now_ms)
            self._producers[run.producer_id] = producer
            producer.seen_ms = max(producer.seen_ms, now_ms)
            if run.epoch == producer.epoch:
                if producer.gaps < self._gaps:
                    producer.gaps = self._gaps
                    producer.close_gap_before(run.first)
                producer.take(run.first, run.last)
                producer.largest = max(producer.largest, run.records)

    def begin_gap(self) -> None:
        """Note, while a log is read, that records are missing or unreadable here.

        A gap in a producer's sequences at this place is not one: the missing records had arrived.
        They will not be sent again, and waiting for them would refuse the producer for good.
        """
        self._gaps += 1

    def end_load(self) -> None:
        """Note that the log has been read: from now on gaps count."""
        self._gaps = 0
        for producer in self._producers.values():
            producer.gaps = 0

    def _evict(self) -> None:
        if len(self._producers) >= self._producers_max:
            del self._producers[next(iter(self._producers))]

    def forget_before(self, time_ms: int) -> None:
        """Forget the producers that have been silent since a time."""
        gone = [key for key, each in self._producers.items() if each.seen_ms < time_ms]
        for key in gone:
            del self._producers[key]

    def image(self) -> list[ProducerCheckpoint]:
        """Return all producers, the last seen last."""
        return [
            ProducerCheckpoint(
                key, each.epoch, each.done, each.largest, each.seen_ms, tuple(each.ahead)
            )
            for key, each in self._producers.items()
        ]

    def restore(self, image: Iterable[ProducerCheckpoint]) -> None:
        """Restore the producers of a checkpoint."""
        for known in image:
            producer = _Producer(known.epoch, known.seen_ms)
            producer.done, producer.largest = known.done, known.largest
            producer.ahead = list(known.ahead)
            self._producers[known.producer_id] = producer


def _check(producer: _Producer, run: Run, batch_assumed: int) -> None:
    if run.epoch < producer.epoch:
        name = run.producer_id.decode("utf-8", "replace")
        raise StaleEpochError(f"producer={name} epoch={run.epoch} current={producer.epoch}")
    largest = max(producer.largest, run.records, batch_assumed)
    # The missing batch, and those that may overtake it.
    ahead_max = (1 + NAMED_PRODUCER_BATCHES_AHEAD) * largest
    expected = producer.done + 1
    if run.last - producer.done > ahead_max and run.first > expected:
        if producer.done == 0 and not producer.ahead:
            raise SequenceError(
                f"idempotency error: first message must have seqNum=1, got {run.first}"
            )
        raise SequenceError(f"idempotency gap: expected seqNum={expected}, got {run.first}")
