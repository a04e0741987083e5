"""What can be asked of a transactional id, and the answers, in words that no protocol owns.

What a protocol changes from version to version beyond its fields is a flag here (`bumps_epoch`).
A machine cannot write to other logs: what it needs done there is a reply to the outside, which
leaves as every reply does, when the records before it are durable.
"""

from typing import NamedTuple, TypeAlias

from broker.core.machine import Decision
from broker.core.transactions.records import (
    NO_ID,
    NO_TIME,
    Place,
    TransactionRecord,
    TransactionState,
)
from broker.model import limits
from broker.model.errors import ErrorCode

NO_EPOCH = -1
EPOCH_MAX = 32_767
# The epoch before the last is the last that a producer may hold: the last one fences it.
LAST_EPOCH = EPOCH_MAX - 1


class TransactionSettings(NamedTuple):
    """What an operator may move, in Kafka's words (transaction.*, transactional.id.*)."""

    timeout_ms_max: int = 900_000
    expiration_ms: int = 7 * 24 * 3_600_000
    ids_max: int = limits.TRANSACTIONAL_IDS_MAX
    open_max: int = limits.OPEN_TRANSACTIONS_MAX


class Producer(NamedTuple):
    """A transactional id, and who says to hold it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class InitRequest(NamedTuple):
    """A producer takes a transactional id: its older instances are fenced.

    One that goes on after an error says who it was (KIP-360), else id and epoch are -1.
    `fresh_producer_id` is there to be given out; a machine has no ids of its own.
    """

    transactional_id: str
    timeout_ms: int
    fresh_producer_id: int
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


class InitResponse(NamedTuple):
    """The producer's id and epoch from now on."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


class BeginRequest(NamedTuple):
    """A transaction begins before it touches anything, as dialects have it that say so."""

    producer: Producer


class AddRequest(NamedTuple):
    """A transaction is about to touch partitions, and begins with the first of them."""

    producer: Producer
    partitions: tuple[Place, ...]
    client_version: int = 0


class VerifyRequest(NamedTuple):
    """Whether a transaction has touched partitions."""

    producer: Producer
    partitions: tuple[Place, ...]


class VerifyResponse(NamedTuple):
    """An error per partition, in the order asked."""

    errors: tuple[ErrorCode, ...]


class EndRequest(NamedTuple):
    """Commit or abort; `bumps_epoch`: the next transaction has another epoch (KIP-890).

    `fresh_producer_id` is for a producer whose epochs are used up by that; -1: none is at hand.
    """

    producer: Producer
    is_commit: bool
    bumps_epoch: bool = False
    fresh_producer_id: int = NO_ID


class EndResponse(NamedTuple):
    """The producer's id and epoch for the next transaction."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


class TransactionDescription(NamedTuple):
    """A transactional id as an administrator sees it."""

    error: ErrorCode
    transactional_id: str
    state: TransactionState = TransactionState.DEAD
    timeout_ms: int = 0
    started_ms: int = NO_TIME
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    partitions: frozenset[Place] = frozenset()


class SyncData(NamedTuple):
    """To the outside: take no more of this transaction, have it on the disk, then say `synced`."""

    producer: Producer
    partitions: frozenset[Place]
    attempt: int


class WriteMarkers(NamedTuple):
    """To the outside: write the decision into every partition, then say `marked`."""

    producer: Producer
    is_committed: bool
    partitions: frozenset[Place]


Response: TypeAlias = (
    InitResponse
    | VerifyResponse
    | EndResponse
    | TransactionDescription
    | SyncData
    | WriteMarkers
    | ErrorCode
)

TransactionDecision: TypeAlias = Decision[TransactionRecord, Response]
