"""The transaction coordinator: what protocols and the broker call.

A transactional id lives in the partition of `__transaction_state` that it hashes to; what all
coordinators share is in `coordination/partitions.py`. Commands return a future. What a decision
needs done in other logs arrives as a reply in `_take`, and goes to the end driver.

In a cluster a transaction's coordinator and the leaders of its partitions may be different brokers.
A leader asks the coordinator before it admits a producer (`admit`); the coordinator sends markers
to the leaders (remote_markers.py), which write them on request (`write_marker`). An addition admits
the producer to the logs of this broker only: other leaders ask.
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from broker.codec.control_records import Marker
from broker.core.coordination.coordinator import Waiter, put_response
from broker.core.coordination.machine import Moment, RecordFormat, Token
from broker.core.coordination.notes import Notes
from broker.core.coordination.partitions import CoordinatorPartitions, Environment
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.logs.log import TransactionalLog
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions import commands, records
from broker.core.transactions.end_driver import EndDriver
from broker.core.transactions.end_rules import EPOCH_BUMP_VERSION
from broker.core.transactions.hanging_transactions import HangingTransactions
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.shard import TransactionLimits, TransactionShard
from broker.core.transactions.step_queue import StepQueue
from broker.core.transactions.transaction import Transaction
from broker.core.transactions.waiters import TransactionWaiters
from broker.model import limits
from broker.model.errors import ErrorCode

if TYPE_CHECKING:
    from broker.core.transactions.other_brokers import OtherBrokers

RECORD_FORMAT: RecordFormat[records.TransactionRecord] = RecordFormat(
    records.encode, records.decode, records.without_value
)


class TransactionCoordinator(
    CoordinatorPartitions[records.TransactionRecord, commands.Response, TransactionShard]
):
    """All transactional ids of this broker."""

    def __init__(
        self,
        environment: Environment,
        find_log: Callable[[TopicPartition], TransactionalLog | None],
        groups: GroupCoordinator,
        *,
        settings: commands.TransactionSettings | None = None,
        partition_count: int = 50,
        others: "OtherBrokers | None" = None,
    ) -> None:
        """Keep what it needs; nothing is opened yet.

        Args:
            environment: the logs of `__transaction_state`, the loop and the clock.
            find_log: returns the log of a partition that a transaction has touched, or None if
                its topic has been deleted or another broker leads it.
            groups: the group coordinator, whose pending offsets a transaction decides.
            settings: settings and limits.
            partition_count: of `__transaction_state`; fixed once that topic exists.
            others: the other brokers of a cluster; None: this broker is standalone.
        """
        settings = settings or commands.TransactionSettings()
        transaction_limits = TransactionLimits(settings, self.shards)
        # Replies for the end driver are addressed to this waiter, which never goes.
        outbox: Waiter[commands.Response] = Waiter(self._take, lambda error: error, is_patient=True)
        super().__init__(
            TRANSACTIONS_TOPIC,
            partition_count,
            environment,
            RECORD_FORMAT,
            lambda _: TransactionShard(settings, transaction_limits, outbox),
            expiry_interval_ms=limits.TRANSACTIONS_EXPIRY_INTERVAL_MS,
            can_resume_partly=False,  # a prepared transaction must be completed
        )
        self._groups = groups
        self._others = others
        self._markers = Markers(find_log, groups.end_transaction, environment.clock, others)
        self._steps = StepQueue(self.wake)
        self._end_driver = EndDriver(self, self._markers, self._steps)
        self._hanging = HangingTransactions(self._markers, Notes(environment.clock))
        self._waiters = TransactionWaiters(environment)
        self._ends_retry_ms: int | None = None
        self._ends_pause_ms = limits.TRANSACTION_RETRY_MS  # before the next retry
        if others is not None:
            others.when_leaders_change(self.leaders_changed)

    # ---- where transactional ids live ------------------------------------------------------------

    def recovered(self, number: int, *, is_empty: bool) -> None:
        """Begin to load a partition that was expected."""
        super().recovered(number, is_empty=is_empty)
        self.wake()

    def suspect(self, topic_partition: TopicPartition) -> None:
        """Check the open transactions of a recovered log once all coordinators are loaded.

        Not in a cluster: another broker may coordinate them, and this one cannot know that none
        does. It is not needed either: a coordinator sends the markers that it owes until they are
        written, however often the leader restarts. Only if `__transaction_state` has lost records
        may a transaction hang, and then an operator decides (kafka-transactions.sh abort, which
        sends WriteTxnMarkers).
        """
        if self._others is None:
            self._hanging.suspect(topic_partition)
            self.wake()

    def tick(self) -> int:
        """Load, check deadlines, write markers; return the time of the next call (monotonic ms)."""
        now_ms = self._environment.clock.monotonic_ms()
        self._waiters.tick()
        self._abort_hanging()
        self._end_some(now_ms)
        deadlines = [super().tick(), self._waiters.next_deadline_ms(), self._ends_retry_ms]
        if self._steps.wants_turn:
            deadlines.append(now_ms)
        if self._hanging.has_suspects:
            is_complete = self.is_complete
            deadlines.append(now_ms + (0 if is_complete else limits.TRANSACTION_RETRY_MS))
        return min(each for each in deadlines if each is not None)

    def _end_some(self, now_ms: int) -> None:
        """Continue unfinished ends; retry failed markers when their delay is over."""
        is_retry = self._ends_retry_ms is not None and now_ms >= self._ends_retry_ms
        if is_retry:
            self._end_driver.retry()
            self._hanging.retry()
        self._steps.tick()
        if not (self._end_driver.wants_retry or self._hanging.wants_retry):
            self._ends_retry_ms = None
        elif is_retry or self._ends_retry_ms is None:
            self._ends_retry_ms = now_ms + self._next_pause_ms()

    def _next_pause_ms(self) -> int:
        pause_ms = self._ends_pause_ms
        self._ends_pause_ms = min(2 * pause_ms, limits.TRANSACTION_RETRY_MS)
        return pause_ms

    def leaders_changed(self) -> None:
        """Retry failed markers soon: other brokers may take them now, or will in a moment."""
        self._ends_pause_ms = limits.MARKER_RETRY_MS_MIN
        if self._ends_retry_ms is not None:
            now_ms = self._environment.clock.monotonic_ms()
            self._ends_retry_ms = min(self._ends_retry_ms, now_ms + self._next_pause_ms())
            self._environment.wake_at(self._ends_retry_ms)

    def _abort_hanging(self) -> None:
        if self._hanging.has_suspects and self.is_complete:
            undecided: dict[int, frozenset[TopicPartition]] = {}
            for shard in self.shards():
                undecided.update(shard.undecided())
            self._hanging.abort_some(
                lambda producer_id, topic_partition: (
                    topic_partition in undecided.get(producer_id, ())
                ),
                is_certain=not self.lost_count,
            )

    # ---- producers -------------------------------------------------------------------------------

    def needs_fresh_id(self, transactional_id: str, *, at_end: bool = False) -> bool:
        """Whether the next init (or end) assigns a producer id, which the request must bring."""
        transaction = self._transaction(transactional_id)
        return not at_end if transaction is None else transaction.needs_fresh_id

    def init(self, request: commands.InitRequest) -> Future[commands.InitResponse]:
        """Let a producer take a transactional id."""
        return self.serve(
            request.transactional_id,
            lambda shard, token, now: shard.init(request, token, now),
            commands.InitResponse,
        )

    def end(self, request: commands.EndRequest) -> Future[commands.EndResponse]:
        """Commit or abort."""
        return self.serve(
            request.producer.transactional_id,
            lambda shard, token, now: shard.end(request, token, now),
            commands.EndResponse,
        )

    def begin(self, producer: commands.Producer) -> Future[ErrorCode]:
        """Begin a transaction before it touches a partition; `add` begins one by itself."""
        request = commands.AddRequest(producer, (), begins=True)
        return self.serve(
            producer.transactional_id,
            lambda shard, token, now: shard.add(request, token, now),
            lambda error: error,
        )

    async def wait_ended(self, transactional_id: str, timeout_ms: int) -> bool:
        """Wait for the markers of a transaction that ends; False when they are not all written.

        That is so when the time is over, or when its coordinator is another broker now.
        """
        deadline_ms = self._environment.clock.monotonic_ms() + timeout_ms
        while self._is_ending(transactional_id):
            if self._environment.clock.monotonic_ms() >= deadline_ms:
                return False
            await self._waiters.wait(transactional_id)
        return self.load_of(transactional_id) is not None

    async def wait_for_commits(self, topic_partition: TopicPartition, timeout_ms: int) -> bool:
        """Wait until a partition has all commits that have begun so far; False: not in time.

        Also False while not every transaction is known, as after a start.
        """
        deadline_ms = self._environment.clock.monotonic_ms() + timeout_ms
        waiting = self._committing(topic_partition)
        while waiting and self.is_complete:
            if self._environment.clock.monotonic_ms() >= deadline_ms:
                return False
            await self._waiters.wait(min(waiting))
            waiting &= self._committing(topic_partition)  # without those that began later
        return self.is_complete

    def _committing(self, topic_partition: TopicPartition) -> set[str]:
        return {each for shard in self.shards() for each in shard.committing(topic_partition)}

    # ---- partitions ------------------------------------------------------------------------------

    def add(self, request: commands.AddRequest) -> Future[ErrorCode]:
        """Add partitions to a transaction; their logs accept its batches from then on."""
        added: Future[ErrorCode] = self._environment.create_future()

        def admitted(is_open: bool) -> None:
            # If not, the transaction has ended meanwhile.
            put_response(added, ErrorCode.NONE if is_open else ErrorCode.CONCURRENT_TRANSACTIONS)

        def answer(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._steps.begin(self._admit(request.producer, request.partitions, admitted))
            else:
                put_response(added, error)

        self.serve_to(
            self.partition_for(request.producer.transactional_id),
            lambda shard, token, now: shard.add(request, token, now),
            answer,
            lambda error: error,
        )
        return added

    def verify(self, request: commands.VerifyRequest) -> Future[commands.VerifyResponse]:
        """Check partitions of a transaction; logs of the right ones accept its batches."""
        verified: Future[commands.VerifyResponse] = self._environment.create_future()
        topic_partitions = request.partitions

        def answer(response: commands.VerifyResponse) -> None:
            right = [
                topic_partition
                for topic_partition, error in zip(topic_partitions, response.errors, strict=True)
                if error is ErrorCode.NONE
            ]

            def admitted(is_open: bool) -> None:
                concurrent = (ErrorCode.CONCURRENT_TRANSACTIONS,) * len(topic_partitions)
                refused = commands.VerifyResponse(concurrent)
                put_response(verified, response if is_open else refused)

            self._steps.begin(self._admit(request.producer, right, admitted))

        self.serve_to(
            self.partition_for(request.producer.transactional_id),
            lambda shard, token, _: shard.verify(request, token),
            answer,
            lambda error: commands.VerifyResponse((error,) * len(topic_partitions)),
        )
        return verified

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partitions: Iterable[TopicPartition],
        *,
        adds_implicitly: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Make logs accept a producer's batches, or return errors per partition (KIP-890).

        A newer producer adds partitions by writing to them, an older one must have added them. A
        fenced producer gets INVALID_PRODUCER_EPOCH, which all clients expect of a Produce.
        """
        producer = commands.Producer(transactional_id, producer_id, producer_epoch)
        partitions = tuple(dict.fromkeys(topic_partitions))
        if self._others is not None and not self.coordinates(transactional_id):
            coordinators = self._others.coordinators
            errors = await coordinators.admit(producer, partitions, adds=adds_implicitly)
        elif adds_implicitly:
            request = commands.AddRequest(producer, partitions, EPOCH_BUMP_VERSION)
            error = await self.add(request)
            if error is ErrorCode.CONCURRENT_TRANSACTIONS:
                if self._is_ending(
                    transactional_id
                ):  # otherwise it has ended already, and no call of `ended` would come
                    await self._waiters.wait(transactional_id)
                error = await self.add(request)
            errors = [error] * len(partitions)
        else:
            errors = list((await self.verify(commands.VerifyRequest(producer, partitions))).errors)
        return {
            topic_partition: ErrorCode.INVALID_PRODUCER_EPOCH
            if error is ErrorCode.PRODUCER_FENCED
            else error
            for topic_partition, error in zip(partitions, errors, strict=True)
        }

    def has(self, producer: commands.Producer, topic_partition: TopicPartition) -> bool:
        """Whether a partition may be written to in a producer's transaction now."""
        transaction = self._transaction(producer.transactional_id)
        return transaction is not None and transaction.has(producer, topic_partition)

    def is_admitted(self, producer: commands.Producer, topic_partition: TopicPartition) -> bool:
        """Whether a partition that `admit` has accepted may still be written to."""
        if self._others is None or self.coordinates(producer.transactional_id):
            return self.has(producer, topic_partition)
        log = self._markers.find_log(topic_partition)
        return log is not None and log.admits_transaction(
            producer.producer_id, producer.producer_epoch
        )

    def is_unfinished(self, producer: commands.Producer) -> bool:
        """Whether a producer's transaction has begun and has not ended everywhere."""
        transaction = self._transaction(producer.transactional_id)
        return transaction is not None and transaction.is_unfinished(producer)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Return the partition that a transaction touches when it commits a group's offsets."""
        return OFFSETS_TOPIC, self._groups.partition_for(group_id)

    def _is_ending(self, transactional_id: str) -> bool:
        transaction = self._transaction(transactional_id)
        return transaction is not None and transaction.is_ending

    def _transaction(self, transactional_id: str) -> Transaction | None:
        """Return the state of a transactional id, if it exists and its partition serves now."""
        shard = self.shard(self.partition_for(transactional_id))
        return None if shard is None else shard.transactions.get(transactional_id)

    def _admit(
        self,
        producer: commands.Producer,
        topic_partitions: Iterable[TopicPartition],
        answer: Callable[[bool], None],
    ) -> Iterator[None]:
        """Make logs accept a producer's batches; answer False if its transaction is over."""
        for topic_partition in topic_partitions:
            if not self.has(producer, topic_partition):
                answer(False)
                return
            log = self._markers.find_log(topic_partition)
            if log is not None and not log.is_loading:
                log.admit_transaction(producer.producer_id, producer.producer_epoch)
            yield
        answer(True)

    # ---- administration --------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Future[commands.TransactionDescription]:
        """Describe a transactional id."""
        return self.serve(
            transactional_id,
            lambda shard, token, _: shard.describe(transactional_id, token),
            lambda error: commands.TransactionDescription(error, transactional_id),
        )

    def listing(self) -> Iterator[list[commands.TransactionDescription]]:
        """Yield every transactional id, a few at a time; the caller may yield to others in between.

        Ids that are created or removed meanwhile may be missing.
        """
        for shard in list(self.shards()):
            ids = iter(list(shard.transactions))
            while some := list(islice(ids, limits.TRANSACTIONS_PER_STEP)):
                found = map(shard.transactions.get, some)
                yield [each.describe() for each in found if each is not None]

    def write_marker(
        self, topic_partition: TopicPartition, marker: Marker, version: int = 0
    ) -> Future[ErrorCode]:
        """Write a marker on request of another broker, or of an operator for a hanging transaction.

        The future is done when the marker is on the disk. `version`: see OwedMarker.
        """
        written: Future[ErrorCode] = self._environment.create_future()
        error = self._marker_error(topic_partition, marker, version)
        if error is ErrorCode.NONE:
            self._markers.write_here(
                topic_partition,
                marker,
                self._markers.batch(marker),
                partial(put_response, written),
            )
        else:
            written.set_result(error)
        return written

    def _marker_error(
        self, topic_partition: TopicPartition, marker: Marker, version: int
    ) -> ErrorCode:
        """Return why a log must refuse a marker: it is of an earlier producer or coordinator.

        With one epoch per transaction, a marker has an epoch above that of its transaction
        (KIP-1228). So one that arrives a second time, late, does not end the next transaction.
        """
        log = self._markers.find_log(topic_partition)
        if log is None or log.is_loading:
            return ErrorCode.NONE  # the write itself reports the reason
        known = log.active_producer(marker.producer_id)
        if known is not None:
            _, epoch, _, _, coordinator_epoch, first_offset = known
            is_late = version >= EPOCH_BUMP_VERSION and first_offset >= 0
            if marker.producer_epoch < epoch + is_late:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if marker.coordinator_epoch < coordinator_epoch:
                return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    # ---- calls of the end driver -----------------------------------------------------------------

    def synced(self, producer: commands.Producer, attempt: int, *, is_durable: bool) -> None:
        """Report that a transaction's data is on the disk, or cannot be."""

        def command(shard: TransactionShard, _: Token, now: Moment) -> commands.TransactionDecision:
            return shard.synced(producer, attempt, now, is_durable=is_durable)

        self._command(producer, command)
        transaction = self._transaction(producer.transactional_id)
        if transaction is not None:
            transaction.end_refused(attempt)

    def marked(self, producer: commands.Producer) -> None:
        """Report that a transaction's markers are on the disk."""
        self._command(producer, lambda shard, _, now: shard.marked(producer, now))
        self._waiters.ended(producer.transactional_id)

    def awaits_sync(self, producer: commands.Producer, attempt: int) -> bool:
        """Whether this attempt to end a transaction still waits for its data."""
        transaction = self._transaction(producer.transactional_id)
        return transaction is not None and transaction.awaits_sync(producer, attempt)

    def decided_in(self, producer: commands.Producer) -> object:
        """Return `load_of` its id if a producer's markers have to be written; None: they do not."""
        shard = self.shard(self.partition_for(producer.transactional_id))
        if shard is None:
            return None
        transaction = shard.transactions.get(producer.transactional_id)
        return shard if transaction is not None and transaction.is_decided(producer) else None

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Return the epoch of a transactional id's markers."""
        return self.leader_epoch(self.partition_for(transactional_id))

    def load_of(self, transactional_id: str) -> object:
        """Return the shard of a transactional id, another one after each load; None: none now."""
        return self.shard(self.partition_for(transactional_id))

    def close(self) -> None:
        """Stop serving, and sending markers."""
        if self._others is not None:
            self._others.leaders.close()
        super().close()

    def _command(
        self,
        producer: commands.Producer,
        command: Callable[[TransactionShard, Token, Moment], commands.TransactionDecision],
    ) -> None:
        """Report to a shard what was done for it; a shard that is loaded again asks again."""
        number = self.partition_for(producer.transactional_id)
        if self.shard(number) is not None:
            self.serve_to(number, command, lambda _: None, lambda error: error)

    def _take(self, message: commands.Response) -> None:
        if isinstance(message, commands.SyncData):
            self._end_driver.sync(message)
        elif isinstance(message, commands.WriteMarkers):
            self._end_driver.write(message)

    def wake(self) -> None:
        """Ask for a tick in a later turn."""
        self._environment.wake_at(self._environment.clock.monotonic_ms())
