"""Which sequences of each producer a partition has: what of a batch is new; pure.

A producer counts its records from 1, anew in each epoch. Its client has a few batches in flight at
once, which may overtake each other: so what comes early is taken, and the gap is remembered until
it is filled. A batch too far ahead is refused, and so is one of an older epoch. What is there
already is not stored again, record by record, however batches are cut.
"""

from collections.abc import Iterable
from typing import NamedTuple

from broker.model.errors import PolylogError
from broker.model.limits import NAMED_PRODUCER_BATCHES_AHEAD


class Run(NamedTuple):
    """Records in a row with sequences in a row; first and last 0: nothing is checked."""

    producer_id: bytes
    epoch: int
    first: int
    last: int
    records: int


class SequenceError(PolylogError):
    """A batch whose sequences cannot be: nothing of it is stored."""


class StaleEpochError(SequenceError):
    """Of an older epoch than the producer's newest."""


class _Producer:
    """What has arrived of one producer's epoch: all up to `done`, and some gaps later `ahead`."""

    __slots__ = ("ahead", "done", "epoch", "gaps", "largest", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.done = 0
        self.ahead: list[tuple[int, int]] = []  # rising, with gaps between them
        self.largest = 0  # batch that was seen of it, in records
        self.gaps = 0  # up to which it has been seen, see Sequences.cut

    def copy(self) -> "_Producer":
        other = _Producer(self.epoch, self.seen_ms)
        other.done, other.largest = self.done, self.largest
        other.ahead = list(self.ahead)
        return other

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """What of a range has not arrived, rising."""
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
        """A range has arrived."""
        if first <= self.done + 1:
            self.done = max(self.done, last)
        elif self.ahead and self.ahead[-1][1] + 1 == first:
            self.ahead[-1] = (self.ahead[-1][0], last)  # as a log is read: one by one
        else:
            self.ahead.append((first, last))
            self._join()
        while self.ahead and self.ahead[0][0] <= self.done + 1:
            self.done = max(self.done, self.ahead.pop(0)[1])

    def close_gap_before(self, first: int) -> None:
        """All between the last that has arrived and this one has, too."""
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
    """A producer as a checkpoint has it."""

    producer_id: bytes
    epoch: int
    done: int
    largest: int
    seen_ms: int
    ahead: tuple[tuple[int, int], ...]


class Plan(NamedTuple):
    """What is to be stored of a batch, and what is remembered once it is."""

    kept: list[range]  # places of records in the batch, rising
    arrivals: list[Run]


class Sequences:
    """All producers of one partition."""

    __slots__ = ("_gaps", "_producers", "_producers_max")

    def __init__(self, producers_max: int) -> None:
        """Know nobody; the one that was silent for longest makes room for one too many."""
        self._producers: dict[bytes, _Producer] = {}  # the one seen last is last
        self._producers_max = producers_max
        self._gaps = 0

    def __len__(self) -> int:
        """Return how many producers are known."""
        return len(self._producers)

    def plan(self, runs: Iterable[Run], *, batch_assumed: int) -> Plan:
        """Find out what of a batch is new; SequenceError when it cannot be taken.

        `batch_assumed` is how many records a batch of its producer has at least, as far as anybody
        knows who has seen none. Nothing changes.
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
        """Records have been stored."""
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
        """While a log is read: here it lacks records, or has some that cannot be read.

        The gap that a producer has there is no gap: what is missing had arrived. Nobody will send
        it again, and who waited for it would be refused for good.
        """
        self._gaps += 1

    def end_load(self) -> None:
        """The log has been read: from here on a gap is one."""
        self._gaps = 0
        for producer in self._producers.values():
            producer.gaps = 0

    def _evict(self) -> None:
        if len(self._producers) >= self._producers_max:
            del self._producers[next(iter(self._producers))]

    def forget_before(self, time_ms: int) -> None:
        """Forget who was silent since."""
        gone = [key for key, each in self._producers.items() if each.seen_ms < time_ms]
        for key in gone:
            del self._producers[key]

    def image(self) -> list[ProducerCheckpoint]:
        """Everybody, who was seen last comes last."""
        return [
            ProducerCheckpoint(
                key, each.epoch, each.done, each.largest, each.seen_ms, tuple(each.ahead)
            )
            for key, each in self._producers.items()
        ]

    def restore(self, image: Iterable[ProducerCheckpoint]) -> None:
        """Know whom a checkpoint knows."""
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
    # The one that is missing, and those that have overtaken it.
    ahead_max = (1 + NAMED_PRODUCER_BATCHES_AHEAD) * largest
    expected = producer.done + 1
    if run.last - producer.done > ahead_max and run.first > expected:
        if producer.done == 0 and not producer.ahead:
            raise SequenceError(
                f"idempotency error: first message must have seqNum=1, got {run.first}"
            )
        raise SequenceError(f"idempotency gap: expected seqNum={expected}, got {run.first}")
