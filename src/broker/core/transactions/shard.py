"""The transactional ids of one partition of `__transaction_state`.

Pure, as the transactions themselves: commands return a Decision, `replay` applies its records,
`tick` lets time pass.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from broker.core.coordination.machine import Moment, Token
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
    Response,
    TransactionDecision,
    TransactionDescription,
    TransactionSettings,
    VerifyRequest,
    VerifyResponse,
)
from broker.core.transactions.records import TopicPartition, TransactionRecord
from broker.core.transactions.transaction import Transaction
from broker.model import limits
from broker.model.errors import ErrorCode


class TransactionLimits:
    """How many transactional ids and open transactions the whole broker may have."""

    def __init__(
        self, settings: TransactionSettings, shards: "Callable[[], Iterator[TransactionShard]]"
    ) -> None:
        """Count `shards` on demand, because they are loaded and dropped without notice."""
        self._settings = settings
        self._shards = shards

    @property
    def has_ids(self) -> bool:
        """Whether one more transactional id may be created."""
        return sum(len(each.transactions) for each in self._shards()) < self._settings.ids_max

    @property
    def has_open(self) -> bool:
        """Whether one more transaction may be opened."""
        return sum(each.open_count for each in self._shards()) < self._settings.open_max


class TransactionShard:
    """The transactional ids that one coordinator partition keeps."""

    pending = None  # `__transaction_state` is not written to in transactions

    def __init__(
        self, settings: TransactionSettings, limits: TransactionLimits, outside: Token
    ) -> None:
        """Start empty; `outside` is the token of the end driver."""
        self._settings = settings
        self._limits = limits
        self._outside = outside
        self.transactions: dict[str, Transaction] = {}
        self.open_count = 0
        self._unfinished: dict[str, Transaction] = {}  # open or prepared
        self._deadlines: list[tuple[int, str]] = []  # a heap; an entry may be too early, never late

    # ---- the log ---------------------------------------------------------------------------------

    def replay(self, record: TransactionRecord) -> None:
        """Apply a record."""
        transactional_id, image = record
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if image is None:
                return
            transaction = self.transactions[transactional_id] = self._new(transactional_id)
        self.open_count -= transaction.is_open
        transaction.replay(image)
        self.open_count += transaction.is_open
        if transaction.is_open or transaction.is_prepared:
            self._unfinished[transactional_id] = transaction
        else:
            self._unfinished.pop(transactional_id, None)
        if image is None:
            del self.transactions[transactional_id]

    def resume(self, now: Moment) -> Iterator[TransactionDecision]:
        """Continue after a load: set deadlines of open transactions, complete prepared ones."""
        for index, transaction in enumerate(list(self.transactions.values()), 1):
            decision = transaction.resume(now)
            self._watch(transaction)
            if decision.replies or index % limits.TRANSACTIONS_PER_STEP == 0:
                yield decision

    def waiting(self) -> list[Token]:
        """Return the tokens of all requests that wait for an end."""
        return [token for each in self.transactions.values() for token in each.waiting()]

    # ---- commands --------------------------------------------------------------------------------

    def init(self, request: InitRequest, token: Token, now: Moment) -> TransactionDecision:
        """Let a producer take a transactional id."""
        transaction = self.transactions.get(request.transactional_id)
        if _is_huge(request.transactional_id):
            return _answer(token, InitResponse(ErrorCode.INVALID_REQUEST))
        if not 0 < request.timeout_ms <= self._settings.timeout_ms_max:
            return _answer(token, InitResponse(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        if transaction is None:
            if not self._limits.has_ids:
                return _answer(token, InitResponse(ErrorCode.POLICY_VIOLATION))
            transaction = self._new(request.transactional_id)
        return transaction.init(request, token, now)

    def add(self, request: AddRequest, token: Token, now: Moment) -> TransactionDecision:
        """Add partitions to a transaction, or begin one without any."""
        transaction = self.transactions.get(request.producer.transactional_id)
        if transaction is None:
            return _answer(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        may_begin = transaction.is_open or self._limits.has_open
        decision = transaction.add(request, token, now, may_begin=may_begin)
        self._watch(transaction)
        return decision

    def verify(self, request: VerifyRequest, token: Token) -> TransactionDecision:
        """Check whether a transaction has touched partitions."""
        transaction = self.transactions.get(request.producer.transactional_id)
        if transaction is None:
            errors = (ErrorCode.INVALID_PRODUCER_ID_MAPPING,) * len(request.partitions)
            return _answer(token, VerifyResponse(errors))
        return _answer(token, transaction.verify(request))

    def end(self, request: EndRequest, token: Token, now: Moment) -> TransactionDecision:
        """Commit or abort."""
        transaction = self.transactions.get(request.producer.transactional_id)
        if transaction is None:
            return _answer(token, EndResponse(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return transaction.end(request, token, now)

    def synced(
        self, producer: Producer, attempt: int, now: Moment, *, is_durable: bool
    ) -> TransactionDecision:
        """Continue an end whose data is on the disk, or cannot be."""
        transaction = self.transactions.get(producer.transactional_id)
        if transaction is None:
            return TransactionDecision()
        return transaction.synced(attempt, now, is_durable=is_durable)

    def marked(self, producer: Producer, now: Moment) -> TransactionDecision:
        """Complete an end whose markers are on the disk."""
        transaction = self.transactions.get(producer.transactional_id)
        return transaction.marked(producer, now) if transaction else TransactionDecision()

    def describe(self, transactional_id: str, token: Token) -> TransactionDecision:
        """Describe a transactional id."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None:
            return _answer(token, transaction.describe())
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return _answer(token, TransactionDescription(error, transactional_id))

    # ---- queries of the coordinator --------------------------------------------------------------

    def committing(self, topic_partition: TopicPartition) -> Iterator[str]:
        """Yield the transactional ids whose commit has begun and is not complete in a partition."""
        for transactional_id, transaction in self._unfinished.items():
            image = transaction.image
            if (
                image is not None
                and transaction.is_committing
                and topic_partition in image.partitions
            ):
                yield transactional_id

    def undecided(self) -> Iterator[tuple[int, frozenset[TopicPartition]]]:
        """Yield producer id and partitions of every transaction without all of its markers."""
        for transaction in self._unfinished.values():
            image = transaction.image
            if image is not None:
                yield image.producer_id, image.partitions

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: Moment) -> Iterator[TransactionDecision]:
        """Check every transaction whose deadline has come."""
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            deadline_ms, transactional_id = heappop(self._deadlines)
            transaction = self.transactions.get(transactional_id)
            if transaction is None or transaction.watched_ms != deadline_ms:
                continue  # an entry that an earlier deadline has replaced
            transaction.watched_ms = None
            decision = transaction.tick(now)
            self._watch(transaction)
            if decision.replies or decision.notes:
                yield decision

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next deadline; None if there is none."""
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now: Moment) -> Iterator[TransactionDecision]:
        """Remove the transactional ids that have been unused for the expiration time."""
        horizon_ms = now.wall_ms - self._settings.expiration_ms
        for index, transaction in enumerate(list(self.transactions.values()), 1):
            decision = transaction.expire(horizon_ms)
            if decision.records or index % limits.TRANSACTIONS_PER_STEP == 0:
                yield decision

    def _watch(self, transaction: Transaction) -> None:
        deadline_ms, watched_ms = transaction.deadline_ms, transaction.watched_ms
        if deadline_ms is not None and (watched_ms is None or deadline_ms < watched_ms):
            transaction.watched_ms = deadline_ms
            heappush(self._deadlines, (deadline_ms, transaction.transactional_id))

    def _new(self, transactional_id: str) -> Transaction:
        return Transaction(transactional_id, self._outside)


def _answer(token: Token, response: Response) -> TransactionDecision:
    return TransactionDecision((), [(token, response)])


def _is_huge(transactional_id: str) -> bool:
    size = len(transactional_id.encode(errors="surrogatepass"))
    return size > limits.TRANSACTIONAL_ID_BYTES_MAX
