"""Common functions of the transaction handlers: error codes by version, producer ids."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.core.scheduling.steps import ascending, in_steps
from broker.core.session import Session
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode, RequestError, StorageError, disk_refusal
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.partitions import topics_of

if TYPE_CHECKING:
    from broker.codec import bodies


def abortable(code: ErrorCode, *, supports_abortable: bool) -> ErrorCode:
    """Return the error of a write outside of a transaction: newer producers abort it (KIP-890)."""
    if code is ErrorCode.INVALID_TXN_STATE and supports_abortable:
        return ErrorCode.TRANSACTION_ABORTABLE
    return code


def number(code: ErrorCode, *, knows_fencing: bool) -> int:
    """Return the error code; for older clients the older code of a fenced producer (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fencing:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return errors.number(code)


async def offsets_partition(session: Session, group_id: str) -> TopicPartition:
    """Return the partition that stores a group's offsets; create its topic if necessary.

    RequestError COORDINATOR_NOT_AVAILABLE, which clients retry, if the topic cannot be created.
    """
    try:
        await session.broker.topics.offsets_topic()
    except RequestError as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
    return session.broker.transactions.offsets_partition(group_id)


async def fresh_producer_id(session: Session) -> int:
    """Return an unused producer id; reserving a block of ids may wait for the disk."""
    broker = session.broker
    try:
        return await broker.io_thread.run(broker.producer_ids.next_id)
    except StorageError as error:
        raise disk_refusal(error) from error


async def partition_results(
    codes: Mapping[TopicPartition, ErrorCode], *, knows_fencing: bool
) -> "list[bodies.AddPartitionsToTxnResponseTopicResult]":
    """Return the results of AddPartitionsToTxn, sorted by partition."""
    rows: dict[str, list[bodies.AddPartitionsToTxnResponseResultsByPartition]] = {}
    in_order = await ascending(codes, NAMES_READ_PER_STEP)
    async for name, index in in_steps(in_order, NAMES_READ_PER_STEP):
        code = number(codes[name, index], knows_fencing=knows_fencing)
        rows.setdefault(name, []).append({"partition_index": index, "partition_error_code": code})
    return await topics_of(rows, lambda name, its: {"name": name, "results_by_partition": its})
