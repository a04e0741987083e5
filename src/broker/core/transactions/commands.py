"""Requests to a transactional id and their responses, independent of a protocol.

Changes of a protocol's behaviour between its versions are flags here (`bumps_epoch`). What a
machine needs done in other logs is a reply, too (`SyncData`, `WriteMarkers`).
"""

from typing import NamedTuple, TypeAlias

from broker.core.coordination.machine import Decision
from broker.core.transactions.records import (
    NO_ID,
    NO_TIME,
    TopicPartition,
    TransactionRecord,
    TransactionState,
)
from broker.model import limits
from broker.model.errors import ErrorCode

NO_EPOCH = -1
EPOCH_MAX = 32_767
# A producer holds epochs up to the one before the largest: the largest is for fencing it.
LAST_EPOCH = EPOCH_MAX - 1


class TransactionSettings(NamedTuple):
    """Settings of an operator (Kafka's transaction.* and transactional.id.*), and limits."""

    timeout_ms_max: int = 900_000
    expiration_ms: int = 7 * 24 * 3_600_000
    ids_max: int = limits.TRANSACTIONAL_IDS_MAX
    open_max: int = limits.OPEN_TRANSACTIONS_MAX


class Producer(NamedTuple):
    """A transactional id, with the producer id and epoch that a client claims to hold."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class InitRequest(NamedTuple):
    """A producer takes a transactional id: its older instances are fenced.

    A producer that continues after an error gives its id and epoch (KIP-360), otherwise they are
    -1. `fresh_producer_id` is assigned if one is needed: a machine cannot reserve ids.
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


class AddRequest(NamedTuple):
    """A transaction is about to touch partitions; the first of them begins it.

    With `begins` it has none: the transaction begins before it touches a partition, as in Cursus.
    """

    producer: Producer
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0
    begins: bool = False


class VerifyRequest(NamedTuple):
    """Asks whether a transaction has touched partitions."""

    producer: Producer
    partitions: tuple[TopicPartition, ...]


class VerifyResponse(NamedTuple):
    """An error per partition, in the order of the request."""

    errors: tuple[ErrorCode, ...]


class EndRequest(NamedTuple):
    """Commit or abort; `bumps_epoch`: the next transaction has another epoch (KIP-890).

    `fresh_producer_id` is for a producer whose epochs are exhausted by that; -1: there is none.
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
    """The state of a transactional id, for administration."""

    error: ErrorCode
    transactional_id: str
    state: TransactionState = TransactionState.DEAD
    timeout_ms: int = 0
    started_ms: int = NO_TIME
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()


class SyncData(NamedTuple):
    """To the end driver: dismiss the producer, sync these partitions, then call `synced`."""

    producer: Producer
    partitions: frozenset[TopicPartition]
    attempt: int


class WriteMarkers(NamedTuple):
    """To the end driver: write a marker into these partitions, then call `marked`.

    `version` is that of OwedMarker.
    """

    producer: Producer
    is_committed: bool
    partitions: frozenset[TopicPartition]
    version: int = 0


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
