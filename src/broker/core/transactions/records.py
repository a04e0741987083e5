"""The state of a transactional id, and its record in `__transaction_state`.

    TransactionLog   key: transactional id   value: producer, epoch, state, partitions, times

A null value deletes the id (broker.codec.coordinator_records has the layout). Version 1 is written,
as by a Kafka 4 broker with transaction.version 2; both versions are read.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeAlias

from broker.codec.coordinator_records import (
    CoordinatorRecord,
    decode_transaction_record,
    encode_coordinator_record,
    transactional_id_of,
)
from broker.model.errors import CodecError, Corrupt

_NAME = "TransactionLog"
_VALUE_VERSION = 1
NO_ID = -1
NO_TIME = -1

TopicPartition: TypeAlias = tuple[str, int]  # a topic and one of its partitions


class TransactionState(Enum):
    """Kafka's states, in the order of their numbers; the values are what tools show.

    The last two are read and never written: a dead id has no record, and fencing is one step here.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES = tuple(TransactionState)


class TransactionImage(NamedTuple):
    """The state of a transactional id, as in its last record.

    Attributes:
        producer_id: of the producer that holds the id.
        producer_epoch: of that producer; older ones are fenced.
        timeout_ms: the largest duration of a transaction.
        state: of its transaction.
        partitions: those that the transaction has touched.
        updated_ms: when the record was written.
        started_ms: when the current or last transaction began; -1: none since the last init.
        previous_producer_id: the one before it, whose epochs were exhausted; -1: none.
        next_producer_id: the one for the next transaction; -1: the same.
        client_version: 2 when the producer's epoch grows with each transaction (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    client_version: int = 0


class TransactionRecord(NamedTuple):
    """A record: the image of a transactional id; None: the id is deleted."""

    transactional_id: str
    image: TransactionImage | None


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record."""
    image = record.image
    value = None
    if image is not None:
        value = {
            "producer_id": image.producer_id,
            "previous_producer_id": image.previous_producer_id,
            "next_producer_id": image.next_producer_id,
            "producer_epoch": image.producer_epoch,
            "transaction_timeout_ms": image.timeout_ms,
            "transaction_status": STATES.index(image.state),
            "transaction_partitions": None
            if image.state is TransactionState.EMPTY
            else [
                {"topic": topic, "partition_ids": partitions}
                for topic, partitions in by_topic(image.partitions).items()
            ],
            "transaction_last_update_timestamp_ms": image.updated_ms,
            "transaction_start_timestamp_ms": image.started_ms,
            "client_transaction_version": image.client_version,
        }
    key = {"transactional_id": record.transactional_id}
    return encode_coordinator_record(CoordinatorRecord(_NAME, _VALUE_VERSION, key, value))


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return the record of a key and value; None for a type of key that is unknown here.

    Raises:
        CodecError: the bytes are no such record.
    """
    if transactional_id_of(key) is None:
        return None
    record = decode_transaction_record(key, value)
    transactional_id, body = record.key["transactional_id"], record.value
    if body is None:
        return TransactionRecord(transactional_id, None)
    status = body["transaction_status"]
    if not 0 <= status < len(STATES):
        raise Corrupt(f"a transaction in state {status}, known are 0 to {len(STATES) - 1}")
    if STATES[status] is TransactionState.DEAD:
        return TransactionRecord(transactional_id, None)
    image = TransactionImage(
        body["producer_id"],
        body["producer_epoch"],
        body["transaction_timeout_ms"],
        STATES[status],
        body["transaction_last_update_timestamp_ms"],
        frozenset(
            (each["topic"], partition)
            for each in body["transaction_partitions"] or ()
            for partition in each["partition_ids"]
        ),
        body["transaction_start_timestamp_ms"],
        body["previous_producer_id"],
        body["next_producer_id"],
        body["client_transaction_version"],
    )
    return TransactionRecord(transactional_id, image)


def without_value(key: bytes) -> TransactionRecord | None:
    """Return the record to replay for a key whose value cannot be read: the id is forgotten.

    Its next producer gets a new producer id. With an older image, epochs could be assigned again
    that the lost record had assigned.
    """
    try:
        transactional_id = transactional_id_of(key)
    except CodecError:
        return None
    return None if transactional_id is None else TransactionRecord(transactional_id, None)


def by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(topic_partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
