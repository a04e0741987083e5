"""The transaction coordinator: the one face of transactions that protocols and the broker see.

A transactional id lives in the partition of `__transaction_state` that it hashes to; what all
coordinators share is in `coordinator_partitions.py`. Every call returns a future. What a decision
needs done in other logs comes as a reply to the outside (`_take`), and goes to `Endings`.
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from broker.codec.control_records import Marker
from broker.core.coordinator import Callback, Waiter
from broker.core.coordinator_partitions import CoordinatorPartitions, Environment
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.log import TransactionalLog
from broker.core.machine import Moment, RecordFormat, Token
from broker.core.notes import Notes
from broker.core.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions import records
from broker.core.transactions.commands import (
    AddRequest,
    BeginRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
    Response,
    SyncData,
    TransactionDecision,
    TransactionDescription,
    TransactionSettings,
    VerifyRequest,
    VerifyResponse,
    WriteMarkers,
)
from broker.core.transactions.end_driver import EndDriver
from broker.core.transactions.hanging_transactions import HangingTransactions
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import Place
from broker.core.transactions.shard import TransactionLimits, TransactionShard
from broker.core.transactions.step_queue import StepQueue
from broker.core.transactions.waiters import TransactionWaiters
from broker.model import limits
from broker.model.errors import ErrorCode

RECORD_FORMAT: RecordFormat[records.TransactionRecord] = RecordFormat(
    records.encode, records.decode, records.without_value
)
# The version of a producer whose epoch grows with each transaction (KIP-890).
_IMPLICIT_VERSION = 2


class TransactionCoordinator:
    """All transactional ids of this broker."""

    def __init__(
        self,
        environment: Environment,
        find_log: Callable[[Place], TransactionalLog | None],
        groups: GroupCoordinator,
        *,
        settings: TransactionSettings | None = None,
        partition_count: int = 50,
    ) -> None:
        """Know how to reach the world; nothing is opened yet.

        Args:
            environment: the logs of `__transaction_state`, the loop and the clock.
            find_log: of a partition that a transaction has touched; None: its topic is gone.
            groups: whose pending offsets a transaction decides about.
            settings: what an operator may move.
            partition_count: of `__transaction_state`; fixed once that topic exists.
        """
        self._environment = environment
        self._groups = groups
        self._markers = Markers(find_log, groups.end_transaction, environment.clock)
        self._steps = StepQueue(self.wake)
        self._end_driver = EndDriver(self, self._markers, self._steps)
        self._hanging = HangingTransactions(self._markers, Notes(environment.clock))
        self._waiters = TransactionWaiters(environment)
        settings = settings or TransactionSettings()
        transaction_limits = TransactionLimits(settings)
        # Where messages to the outside go: a waiter who always waits.
        outbox: Waiter[Response] = Waiter(Callback(self._take), lambda error: error)
        self._partitions: CoordinatorPartitions[
            records.TransactionRecord, Response, TransactionShard
        ] = CoordinatorPartitions(
            TRANSACTIONS_TOPIC,
            partition_count,
            environment,
            RECORD_FORMAT,
            lambda _number: TransactionShard(settings, transaction_limits, outbox),
            expiry_interval_ms=limits.TRANSACTIONS_EXPIRY_INTERVAL_MS,
            can_resume_partly=False,  # what is decided must come true
        )
        transaction_limits.count(self._partitions.shards)
        self._retry_ms: int | None = None

    # ---- where transactional ids live ------------------------------------------------------------

    def expect(self, partitions: Iterable[int]) -> None:
        """These partitions exist, and their logs are still being recovered."""
        self._partitions.expect(partitions)

    def recovered(self, number: int, *, is_empty: bool) -> None:
        """Begin to load a partition that was expected."""
        self._partitions.recovered(number, is_empty=is_empty)
        self.wake()

    def suspect(self, place: Place) -> None:
        """A log has recovered, and holds open transactions that somebody has to know of."""
        self._hanging.suspect(place)
        self.wake()

    @property
    def is_loading(self) -> bool:
        """Whether a part of what it keeps is not known yet."""
        return self._partitions.is_loading

    def tick(self) -> int:
        """Load on, let deadlines pass, write markers; when to be called again (monotonic ms)."""
        now_ms = self._environment.clock.monotonic_ms()
        self._waiters.tick()
        self._abort_hanging()
        self._end_some(now_ms)
        deadlines = [self._partitions.tick(), self._waiters.next_deadline_ms(), self._retry_ms]
        if self._steps.wants_turn:
            deadlines.append(now_ms)
        if self._hanging.has_suspects:
            is_complete = self._partitions.is_complete
            deadlines.append(now_ms + (0 if is_complete else limits.TRANSACTION_RETRY_MS))
        return min(each for each in deadlines if each is not None)

    def _end_some(self, now_ms: int) -> None:
        """Go on with what was begun, markers that could not be written when it is time."""
        is_retry = self._retry_ms is not None and now_ms >= self._retry_ms
        if is_retry:
            self._end_driver.retry()
            self._hanging.retry()
        self._steps.tick()
        if not (self._end_driver.wants_retry or self._hanging.wants_retry):
            self._retry_ms = None
        elif is_retry or self._retry_ms is None:
            self._retry_ms = now_ms + limits.TRANSACTION_RETRY_MS

    def _abort_hanging(self) -> None:
        if self._hanging.has_suspects and self._partitions.is_complete:
            undecided: dict[int, frozenset[Place]] = {}
            for shard in self._partitions.shards():
                undecided.update(shard.undecided())
            self._hanging.abort_some(
                lambda producer_id, place: place in undecided.get(producer_id, ()),
                epoch=0,
                is_certain=not self._partitions.lost_count,
            )

    def close(self) -> None:
        """Stop serving: who waits looks for its coordinator again, what was written stays."""
        self._partitions.close()

    # ---- producers -------------------------------------------------------------------------------

    def needs_fresh_id(self, transactional_id: str, *, at_end: bool = False) -> bool:
        """Whether the next init (or end) gives out a producer id, which has to be at hand."""
        shard = self._partitions.shard(self._partitions.partition_for(transactional_id))
        return (
            not at_end if shard is None else shard.needs_fresh_id(transactional_id, at_end=at_end)
        )

    def init(self, request: InitRequest) -> Future[InitResponse]:
        """A producer takes a transactional id."""
        return self._partitions.serve(
            request.transactional_id,
            lambda shard, token, now: shard.init(request, token, now),
            InitResponse,
        )

    def end(self, request: EndRequest) -> Future[EndResponse]:
        """Commit or abort."""
        return self._partitions.serve(
            request.producer.transactional_id,
            lambda shard, token, now: shard.end(request, token, now),
            EndResponse,
        )

    def begin(self, request: BeginRequest) -> Future[ErrorCode]:
        """A transaction begins before it touches a partition, which `add` would do by itself."""
        return self._partitions.serve(
            request.producer.transactional_id,
            lambda shard, token, now: shard.begin(request, token, now),
            lambda error: error,
        )

    async def wait_ended(self, transactional_id: str, timeout_ms: int) -> bool:
        """Wait for the markers of a transaction that ends; False when that takes too long."""
        deadline_ms = self._environment.clock.monotonic_ms() + timeout_ms
        while self._is_ending(transactional_id):
            if self._environment.clock.monotonic_ms() >= deadline_ms:
                return False
            await self._waiters.wait(transactional_id)
        return True

    async def wait_for_commits(self, place: Place, timeout_ms: int) -> bool:
        """Wait until a partition has all of the commits that have begun by now; False: not in time.

        Also False as long as not every transaction is known, as after a start.
        """
        deadline_ms = self._environment.clock.monotonic_ms() + timeout_ms
        waiting = self._committing(place)
        while waiting and self._partitions.is_complete:
            if self._environment.clock.monotonic_ms() >= deadline_ms:
                return False
            await self._waiters.wait(min(waiting))
            waiting &= self._committing(place)  # Those that begin later are not waited for.
        return self._partitions.is_complete

    def _committing(self, place: Place) -> set[str]:
        return {each for shard in self._partitions.shards() for each in shard.committing(place)}

    # ---- partitions ------------------------------------------------------------------------------

    def add(self, request: AddRequest) -> Future[ErrorCode]:
        """A transaction is about to touch partitions; their logs take its batches from then on."""
        added: Future[ErrorCode] = self._environment.create_future()

        def admitted(is_open: bool) -> None:
            # Else it has ended meanwhile.
            put(ErrorCode.NONE if is_open else ErrorCode.CONCURRENT_TRANSACTIONS)

        def put(error: ErrorCode) -> None:
            if not added.done():
                added.set_result(error)

        def answer(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._steps.begin(self._admit(request.producer, request.partitions, admitted))
            else:
                put(error)

        self._partitions.serve_to(
            self._partitions.partition_for(request.producer.transactional_id),
            lambda shard, token, now: shard.add(request, token, now),
            Callback(answer),
            lambda error: error,
        )
        return added

    def verify(self, request: VerifyRequest) -> Future[VerifyResponse]:
        """Whether a transaction has touched partitions; their logs take its batches if so."""
        verified: Future[VerifyResponse] = self._environment.create_future()
        places = request.partitions

        def answer(response: VerifyResponse) -> None:
            right = [
                place
                for place, error in zip(places, response.errors, strict=True)
                if error is ErrorCode.NONE
            ]

            def admitted(is_open: bool) -> None:
                concurrent = (ErrorCode.CONCURRENT_TRANSACTIONS,) * len(places)
                if not verified.done():
                    verified.set_result(response if is_open else VerifyResponse(concurrent))

            self._steps.begin(self._admit(request.producer, right, admitted))

        self._partitions.serve_to(
            self._partitions.partition_for(request.producer.transactional_id),
            lambda shard, token, _: shard.verify(request, token),
            Callback(answer),
            lambda error: VerifyResponse((error,) * len(places)),
        )
        return verified

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Iterable[Place],
        *,
        adds_implicitly: bool,
    ) -> dict[Place, ErrorCode]:
        """Have logs take a producer's batches, or say why not (KIP-890).

        A newer producer adds the partitions by writing to them, an older one must have added them.
        A producer that is fenced hears it in the words of a log, which all its clients know.
        """
        producer = Producer(transactional_id, producer_id, producer_epoch)
        partitions = tuple(dict.fromkeys(places))
        if adds_implicitly:
            request = AddRequest(producer, partitions, _IMPLICIT_VERSION)
            error = await self.add(request)
            if error is ErrorCode.CONCURRENT_TRANSACTIONS:
                if self._is_ending(
                    transactional_id
                ):  # It may be over by now, and nobody would say so.
                    await self._waiters.wait(transactional_id)
                error = await self.add(request)
            errors = [error] * len(partitions)
        else:
            errors = list((await self.verify(VerifyRequest(producer, partitions))).errors)
        return {
            place: ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
            for place, error in zip(partitions, errors, strict=True)
        }

    def has(self, producer: Producer, place: Place) -> bool:
        """Whether a partition may be written in a producer's transaction now."""
        shard = self._shard_of(producer)
        return shard is not None and shard.has(producer, place)

    def is_unfinished(self, producer: Producer) -> bool:
        """Whether a producer's transaction has begun and has not ended everywhere."""
        shard = self._shard_of(producer)
        return shard is not None and shard.is_unfinished(producer)

    def offsets_place(self, group_id: str) -> Place:
        """The partition that a transaction touches when it commits a group's offsets."""
        return OFFSETS_TOPIC, self._groups.partition_for(group_id)

    def _is_ending(self, transactional_id: str) -> bool:
        shard = self._partitions.shard(self._partitions.partition_for(transactional_id))
        return shard is not None and shard.is_ending(transactional_id)

    def _admit(
        self, producer: Producer, places: Iterable[Place], answer: Callable[[bool], None]
    ) -> Iterator[None]:
        """Open the logs to a producer, unless its transaction is over; answer whether it is not."""
        for place in places:
            if not self.has(producer, place):
                answer(False)
                return
            log = self._markers.find_log(place)
            if log is not None and not log.is_loading:
                log.admit_transaction(producer.producer_id, producer.producer_epoch)
            yield
        answer(True)

    # ---- administration --------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Future[TransactionDescription]:
        """What an administrator sees of a transactional id."""
        return self._partitions.serve(
            transactional_id,
            lambda shard, token, _: shard.describe(transactional_id, token),
            lambda error: TransactionDescription(error, transactional_id),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every transactional id is known."""
        return self._partitions.is_complete

    @property
    def is_ready(self) -> bool:
        """Whether every transactional id is known but those whose disk has failed."""
        return self._partitions.is_ready

    def listing(self) -> Iterator[list[TransactionDescription]]:
        """Every transactional id, a few at a time: others may have a turn in between.

        One that comes or goes meanwhile may be left out.
        """
        for shard in list(self._partitions.shards()):
            ids = iter(list(shard.transactions))
            while some := list(islice(ids, limits.TRANSACTIONS_PER_STEP)):
                found = map(shard.transactions.get, some)
                yield [each.describe() for each in found if each is not None]

    def write_marker(self, place: Place, marker: Marker) -> Future[ErrorCode]:
        """Write a marker that somebody else has decided on, as for a hanging transaction."""
        written: Future[ErrorCode] = self._environment.create_future()
        error = self._marker_error(place, marker)
        if error is ErrorCode.NONE:
            self._markers.write(
                place,
                marker,
                self._markers.batch(marker),
                lambda result: None if written.done() else written.set_result(result),
            )
        else:
            written.set_result(error)
        return written

    def _marker_error(self, place: Place, marker: Marker) -> ErrorCode:
        """Why a log must not take a marker: it is older than what is known of its producer."""
        log = self._markers.find_log(place)
        if log is None or log.is_loading:
            return ErrorCode.NONE  # Whoever writes it says why not.
        known = log.active_producer(marker.producer_id)
        if known is not None:
            _, epoch, _, _, coordinator_epoch, _ = known
            if marker.producer_epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if marker.coordinator_epoch < coordinator_epoch:
                return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    # ---- what endings are told -------------------------------------------------------------------

    def synced(self, producer: Producer, attempt: int, *, is_durable: bool) -> None:
        """A transaction's data is on the disk, or cannot be."""

        def command(shard: TransactionShard, _: Token, now: Moment) -> TransactionDecision:
            return shard.synced(producer, attempt, now, is_durable=is_durable)

        self._command(producer, command)

    def marked(self, producer: Producer) -> None:
        """A transaction's markers are on the disk."""
        self._command(producer, lambda shard, _, now: shard.marked(producer, now))
        self._waiters.ended(producer.transactional_id)

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        """Whether this attempt to end a transaction still waits for its data."""
        shard = self._shard_of(producer)
        return shard is not None and shard.awaits_sync(producer, attempt)

    def is_decided(self, producer: Producer) -> bool:
        """Whether the markers of a producer's transaction are to be written."""
        shard = self._shard_of(producer)
        return shard is not None and shard.is_decided(producer)

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The epoch that the markers of a transactional id carry."""
        return self._partitions.leader_epoch(self._partitions.partition_for(transactional_id))

    def _shard_of(self, producer: Producer) -> TransactionShard | None:
        """The shard of a transactional id, if it serves now."""
        return self._partitions.shard(self._partitions.partition_for(producer.transactional_id))

    def _command(
        self,
        producer: Producer,
        command: Callable[[TransactionShard, Token, Moment], TransactionDecision],
    ) -> None:
        """Tell a shard what has been done for it; one that was dropped begins anew by itself."""
        number = self._partitions.partition_for(producer.transactional_id)
        if self._partitions.shard(number) is not None:
            self._partitions.serve_to(number, command, Callback(_ignore), lambda error: error)

    def _take(self, message: Response) -> None:
        if isinstance(message, SyncData):
            self._end_driver.sync(message)
        elif isinstance(message, WriteMarkers):
            self._end_driver.write(message)

    def wake(self) -> None:
        """There is something to do in a later turn."""
        self._environment.wake_at(self._environment.clock.monotonic_ms())


def _ignore(_: Response) -> None:
    """Nobody waits for an answer."""
