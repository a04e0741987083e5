"""The state machine of one transactional id.

    Empty ── partitions added ──> Ongoing ── end, timeout, fencing ──> its data is synced
      ^                              ^                                       |
      | init                         | added                                 v
    CompleteCommit, CompleteAbort <──┴── every marker is durable ── PrepareCommit, PrepareAbort

(Kafka's TransactionCoordinator and TransactionMetadata; KIP-98, KIP-360, KIP-890.)

Only `replay` changes the image. Some state is never written: an end that waits for the data
(`_ending`), the epoch before the last init (`_last_epoch`), and the deadline.
"""

from typing import NamedTuple

from broker.core.coordination.machine import Moment, Token
from broker.core.transactions import end_rules
from broker.core.transactions.commands import (
    LAST_EPOCH,
    NO_EPOCH,
    AddRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
    SyncData,
    TransactionDecision,
    TransactionDescription,
    VerifyRequest,
    VerifyResponse,
    WriteMarkers,
)
from broker.core.transactions.names import is_reserved
from broker.core.transactions.records import (
    NO_ID,
    TopicPartition,
    TransactionImage,
    TransactionRecord,
    TransactionState,
)
from broker.model import limits
from broker.model.errors import ErrorCode

_COMPLETED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class _Ending(NamedTuple):
    """An end that waits until the transaction's data is on the disk."""

    attempt: int
    is_commit: bool
    token: Token | None  # the request; None: a timeout or a new instance of the producer
    bumps_epoch: bool = False
    next_producer_id: int = NO_ID


class Transaction:
    """The state machine of one transactional id."""

    def __init__(self, transactional_id: str, outside: Token) -> None:
        """Start as an unused id; `outside` is the token of the end driver."""
        self.transactional_id = transactional_id
        self.image: TransactionImage | None = None  # before its first record, and once deleted
        self.deadline_ms: int | None = None  # monotonic: an open transaction is aborted then
        self.watched_ms: int | None = None  # the deadline in its shard's heap
        self._outside = outside
        self._last_epoch = NO_EPOCH
        self._ending: _Ending | None = None
        self._attempts = 0
        self._is_left_open = False  # open at the load, and to be aborted

    # ---- state -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and its end is not decided."""
        return self.image is not None and self.image.state is TransactionState.ONGOING

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided, and its markers are being written."""
        return self.image is not None and self.image.state in end_rules.PREPARED

    @property
    def is_ending(self) -> bool:
        """Whether its end has begun, and its markers are not all on the disk."""
        return self._ending is not None or self.is_prepared

    @property
    def is_committing(self) -> bool:
        """Whether it is ending with a commit."""
        if self._ending is not None:
            return self._ending.is_commit
        return self.image is not None and self.image.state is TransactionState.PREPARE_COMMIT

    def has(self, producer: Producer, topic_partition: TopicPartition) -> bool:
        """Whether a producer's transaction is open, not ending, and has the partition."""
        image = self.image
        return (
            image is not None
            and self.is_open
            and self._use_error(producer) is ErrorCode.NONE
            and topic_partition in image.partitions
        )

    def is_unfinished(self, producer: Producer) -> bool:
        """Whether a producer's transaction has begun and has not ended everywhere."""
        return (self.is_open or self.is_prepared) and self._is_held_by(producer)

    def is_decided(self, producer: Producer) -> bool:
        """Whether the markers of a producer's transaction have to be written."""
        return self.is_prepared and self._is_held_by(producer)

    def awaits_sync(self, producer: Producer, attempt: int) -> bool:
        """Whether this attempt to end a producer's transaction still waits for the data."""
        ending = self._ending
        return ending is not None and ending.attempt == attempt and self._is_held_by(producer)

    def _is_held_by(self, producer: Producer) -> bool:
        return self.image is not None and self.image[:2] == producer[1:]

    @property
    def needs_fresh_id(self) -> bool:
        """Whether the next init, or the next end, assigns another producer id."""
        image = self.image
        assert image is not None
        return image.producer_epoch >= LAST_EPOCH

    def describe(self) -> TransactionDescription:
        """Return its state, for administration."""
        image = self.image
        assert image is not None
        return TransactionDescription(
            ErrorCode.NONE,
            self.transactional_id,
            image.state,
            image.timeout_ms,
            image.started_ms,
            image.producer_id,
            image.producer_epoch,
            image.partitions,
        )

    def waiting(self) -> list[Token]:
        """Return the token of the request that waits for an end, if any."""
        token = self._ending.token if self._ending else None
        return [] if token is None else [token]

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, image: TransactionImage | None) -> None:
        """Apply the image of a record."""
        self.image = image
        self._ending = None
        self._is_left_open = self._is_left_open and self.is_open

    def resume(self, now: Moment) -> TransactionDecision:
        """Continue after a load: set the deadline if it is open, complete it if prepared."""
        decision = TransactionDecision()
        image = self.image
        if image is not None and self.is_prepared:
            self._ask_for_markers(image, decision)
        elif image is not None and self.is_open:
            left_ms = image.started_ms + image.timeout_ms - now.wall_ms
            if is_reserved(self.transactional_id):
                left_ms = 0
                self._is_left_open = True
            # If the wall clock was set back, the transaction still gets no more than its timeout.
            self.deadline_ms = now.monotonic_ms + min(max(0, left_ms), image.timeout_ms)
        return decision

    # ---- init ------------------------------------------------------------------------------------

    def init(self, request: InitRequest, token: Token, now: Moment) -> TransactionDecision:
        """Let a producer take the id; an open transaction of an older instance is aborted first."""
        decision = TransactionDecision()
        error = self._init_error(request)
        if error is not ErrorCode.NONE:
            self._note_fenced(decision, error, request.producer_id, request.producer_epoch)
            decision.reply(token, InitResponse(error))
        elif self.is_ending:
            decision.reply(token, InitResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
        elif self.is_open:
            decision.note(
                "transaction abort",
                "its producer was initialised anew while it was open",
                **self._names(),
            )
            self._begin_end(_Ending(self._attempt(), is_commit=False, token=None), decision)
            decision.reply(token, InitResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
        else:
            self._take(request, token, now, decision)
        return decision

    def _init_error(self, request: InitRequest) -> ErrorCode:
        """Return why a producer that gives its id and epoch may not continue (KIP-360)."""
        image = self.image
        if image is None or request.producer_id == NO_ID:
            return ErrorCode.NONE
        if request.producer_id == image.producer_id:
            known = (image.producer_epoch, self._previous_epoch(image))
            is_known = request.producer_epoch in known and request.producer_epoch != NO_EPOCH
            return ErrorCode.NONE if is_known else ErrorCode.PRODUCER_FENCED
        is_repeated = (
            request.producer_id == image.previous_producer_id
            and request.producer_epoch == self._previous_epoch(image) >= LAST_EPOCH
        )
        return ErrorCode.NONE if is_repeated else ErrorCode.PRODUCER_FENCED

    def _previous_epoch(self, image: TransactionImage) -> int:
        """Return the epoch of a producer whose last response was lost; -1: none."""
        if image.state in _COMPLETED and image.client_version >= end_rules.EPOCH_BUMP_VERSION:
            return image.producer_epoch - 1 if image.producer_epoch else LAST_EPOCH
        return self._last_epoch

    def _take(
        self, request: InitRequest, token: Token, now: Moment, decision: TransactionDecision
    ) -> None:
        """Assign the next epoch, or a new producer id if needed; repeat a lost response."""
        image = self.image
        last_epoch = request.producer_epoch if request.producer_id != NO_ID else NO_EPOCH
        if image is None:
            producer_id, epoch, previous = request.fresh_producer_id, 0, NO_ID
            last_epoch = NO_EPOCH
        elif (
            last_epoch != NO_EPOCH
            and (request.producer_id, last_epoch) != image[:2]
            and image.producer_epoch <= LAST_EPOCH  # else a timeout has used the fencing epoch
        ):
            response = InitResponse(ErrorCode.NONE, image.producer_id, image.producer_epoch)
            decision.reply(token, response)
            return
        elif image.producer_epoch >= LAST_EPOCH:
            producer_id, epoch = request.fresh_producer_id, 0
            previous = image.producer_id
        else:
            producer_id, epoch = image.producer_id, image.producer_epoch + 1
            previous = image.previous_producer_id
        if producer_id == NO_ID:  # its epochs were exhausted after `needs_fresh_id` was asked
            decision.reply(token, InitResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        self._last_epoch = last_epoch
        taken = TransactionImage(
            producer_id,
            epoch,
            request.timeout_ms,
            TransactionState.EMPTY,
            now.wall_ms,
            previous_producer_id=previous,
        )
        decision.records.append(TransactionRecord(self.transactional_id, taken))
        decision.reply(token, InitResponse(ErrorCode.NONE, producer_id, epoch))

    # ---- partitions ------------------------------------------------------------------------------

    def add(
        self, request: AddRequest, token: Token, now: Moment, *, may_begin: bool
    ) -> TransactionDecision:
        """Add partitions to the transaction; the first of them begin it.

        A request that only begins a transaction gets INVALID_TXN_STATE if one is open already.
        """
        decision = TransactionDecision()
        image = self.image
        error = self._use_error(request.producer)
        is_new = not self.is_open
        if error is ErrorCode.NONE and request.begins and not is_new:
            error = ErrorCode.INVALID_TXN_STATE
        elif error is ErrorCode.NONE and is_new and not may_begin:
            error = ErrorCode.CONCURRENT_TRANSACTIONS  # retried until others have ended
        if error is not ErrorCode.NONE or image is None:
            self._note_fenced(decision, error, *request.producer[1:])
        elif request.begins or not image.partitions.issuperset(request.partitions):
            grown = image._replace(
                state=TransactionState.ONGOING,
                partitions=image.partitions.union(request.partitions),
                updated_ms=now.wall_ms,
                started_ms=now.wall_ms if is_new else image.started_ms,
                client_version=request.client_version,
            )
            if is_new:
                self.deadline_ms = now.monotonic_ms + image.timeout_ms
            decision.records.append(TransactionRecord(self.transactional_id, grown))
        decision.reply(token, error)
        return decision

    def verify(self, request: VerifyRequest) -> VerifyResponse:
        """Check whether partitions belong to the producer's open transaction (KIP-890)."""
        image = self.image
        error = self._use_error(request.producer)
        if error is not ErrorCode.NONE or image is None:
            return VerifyResponse((error,) * len(request.partitions))
        return VerifyResponse(
            tuple(
                ErrorCode.NONE if each in image.partitions else ErrorCode.INVALID_TXN_STATE
                for each in request.partitions
            )
        )

    def _use_error(self, producer: Producer) -> ErrorCode:
        """Return why a producer may not use its transaction now."""
        error = self._identity_error(producer)
        if error is ErrorCode.NONE and self.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return error

    def _identity_error(self, producer: Producer) -> ErrorCode:
        """Return why a producer is not the holder of the id."""
        image = self.image
        if image is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        _, producer_id, epoch = producer
        if producer_id != image.producer_id:
            is_next = self.is_prepared and (producer_id, epoch) == (image.next_producer_id, 0)
            return (
                ErrorCode.CONCURRENT_TRANSACTIONS
                if is_next
                else ErrorCode.INVALID_PRODUCER_ID_MAPPING
            )
        return ErrorCode.NONE if epoch == image.producer_epoch else ErrorCode.PRODUCER_FENCED

    # ---- the end ---------------------------------------------------------------------------------

    def end(self, request: EndRequest, token: Token, now: Moment) -> TransactionDecision:
        """Commit or abort; the response follows when the data and then the decision are durable."""
        decision = TransactionDecision()
        image = self.image
        error = self._end_error(request)
        if error is not ErrorCode.NONE or image is None:
            self._note_fenced(decision, error, *request.producer[1:])
            decision.reply(token, EndResponse(error))
        elif self.is_open:
            next_id = request.fresh_producer_id if image.producer_epoch >= LAST_EPOCH else NO_ID
            bumps = request.bumps_epoch
            ending = _Ending(self._attempt(), request.is_commit, token, bumps, next_id)
            self._begin_end(ending, decision)
        elif request.bumps_epoch and end_rules.is_new(image, request):
            self._end_nothing(image, request, token, now, decision)
        else:  # a repeated request, whose response was lost
            decision.reply(token, EndResponse(ErrorCode.NONE, *image[:2]))
        return decision

    def _end_error(self, request: EndRequest) -> ErrorCode:
        """Return why a producer may not end its transaction so, or not now."""
        image = self.image
        if image is None or not end_rules.is_repeated(image, request):
            error = self._identity_error(request.producer)
            if error is not ErrorCode.NONE or image is None:
                return error
        if self._ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return end_rules.error_of(image, request)

    def _end_nothing(
        self,
        image: TransactionImage,
        request: EndRequest,
        token: Token,
        now: Moment,
        decision: TransactionDecision,
    ) -> None:
        """Abort an empty transaction, or one that timed out: only the epoch changes."""
        ended = image._replace(
            state=TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            producer_epoch=image.producer_epoch + 1,
            updated_ms=now.wall_ms,
            client_version=end_rules.EPOCH_BUMP_VERSION,
        )
        if end_rules.needs_id(image, request):
            if request.fresh_producer_id == NO_ID:
                decision.reply(token, EndResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
                return
            ended = end_rules.rotated(ended, request.fresh_producer_id)
        decision.records.append(TransactionRecord(self.transactional_id, ended))
        decision.reply(token, EndResponse(ErrorCode.NONE, *ended[:2]))

    def _attempt(self) -> int:
        self._attempts += 1
        return self._attempts

    def _begin_end(self, ending: _Ending, decision: TransactionDecision) -> None:
        """Sync the data first: a decision must not be durable before what it decides about."""
        image = self.image
        assert image is not None
        self._ending = ending
        data = SyncData(self._producer(image), image.partitions, ending.attempt)
        decision.reply(self._outside, data)

    def synced(self, attempt: int, now: Moment, *, is_durable: bool) -> TransactionDecision:
        """Decide, once the data is on the disk; if it cannot be, only an abort is possible."""
        decision = TransactionDecision()
        ending, image = self._ending, self.image
        if ending is None or image is None or ending.attempt != attempt:
            return decision
        if ending.is_commit and not is_durable:
            self._ending = None
            if ending.token is not None:
                decision.reply(ending.token, EndResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return decision
        prepared = end_rules.prepared(
            image,
            now.wall_ms,
            is_commit=ending.is_commit,
            is_fence=ending.token is None,
            bumps_epoch=ending.bumps_epoch,
            next_producer_id=ending.next_producer_id,
        )
        decision.records.append(TransactionRecord(self.transactional_id, prepared))
        if ending.token is not None:
            decision.reply(
                ending.token, EndResponse(ErrorCode.NONE, *end_rules.next_holder(prepared))
            )
        self._ask_for_markers(prepared, decision)
        return decision

    def end_refused(self, attempt: int) -> None:
        """Forget an attempt whose decision was not replayed: its record was not appended.

        The log has no space or too few replicas. The transaction stays open, and may be ended anew.
        """
        if self._ending is not None and self._ending.attempt == attempt:
            self._ending = None

    def _ask_for_markers(self, image: TransactionImage, decision: TransactionDecision) -> None:
        is_committed = image.state is TransactionState.PREPARE_COMMIT
        markers = WriteMarkers(
            self._producer(image), is_committed, image.partitions, image.client_version
        )
        decision.reply(self._outside, markers)

    def marked(self, producer: Producer, now: Moment) -> TransactionDecision:
        """Complete the transaction: every marker is durable."""
        image = self.image
        if image is None or not self.is_decided(producer):
            return TransactionDecision()
        is_commit = image.state is TransactionState.PREPARE_COMMIT
        done = image._replace(
            state=TransactionState.COMPLETE_COMMIT
            if is_commit
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now.wall_ms,
        )
        if image.next_producer_id != NO_ID:
            done = end_rules.rotated(done, image.next_producer_id)
        return TransactionDecision([TransactionRecord(self.transactional_id, done)])

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> TransactionDecision:
        """Abort a transaction that has exceeded its timeout; its producer is fenced."""
        decision = TransactionDecision()
        if self.deadline_ms is None or now.monotonic_ms < self.deadline_ms:
            return decision
        if not self.is_open or self.image is None:
            self.deadline_ms = None
        elif self._ending:  # that end may fail and leave the transaction open
            self.deadline_ms = now.monotonic_ms + limits.TRANSACTION_RETRY_MS
        else:
            self.deadline_ms = now.monotonic_ms + limits.TRANSACTION_RETRY_MS
            reason = f"it was open for longer than its {self.image.timeout_ms} ms"
            if self._is_left_open:
                reason = "it was left open when its coordinator stopped"
            decision.note("transaction abort", reason, **self._names())
            self._begin_end(_Ending(self._attempt(), is_commit=False, token=None), decision)
        return decision

    def expire(self, horizon_ms: int) -> TransactionDecision:
        """Remove the id if it has not been used since the horizon."""
        decision = TransactionDecision()
        image = self.image
        if image is None or self.is_open or self.is_prepared or image.updated_ms > horizon_ms:
            return decision
        decision.records.append(TransactionRecord(self.transactional_id, None))
        decision.note("transactional id expired", "nobody has used it for long", **self._names())
        return decision

    # ---- notes -----------------------------------------------------------------------------------

    def _producer(self, image: TransactionImage) -> Producer:
        return Producer(self.transactional_id, image.producer_id, image.producer_epoch)

    def _names(self) -> dict[str, object]:
        image = self.image
        names: dict[str, object] = {"transactional_id": self.transactional_id}
        if image is not None:
            names |= {"producer_id": image.producer_id, "epoch": image.producer_epoch}
        return names

    def _note_fenced(
        self, decision: TransactionDecision, error: ErrorCode, producer_id: int, epoch: int
    ) -> None:
        if error is ErrorCode.PRODUCER_FENCED:
            reason = f"producer {producer_id} came with epoch {epoch}, which is not the last"
            decision.note("producer fenced", reason, **self._names())
