"""Common functions of handlers for transactions: admission, error codes, producer ids."""

from struct import Struct
from typing import TYPE_CHECKING

from broker.core.logs.partition import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES
from broker.core.scheduling.steps import StepBudget
from broker.core.session import Session
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode, RequestError, StorageError, disk_refusal
from broker.model.limits import PRODUCE_NAME_BYTES
from broker.protocols.kafka import errors
from broker.protocols.kafka.produce_response import Batch, Place, Refused

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.protocols.kafka.api import Request

_ABORTABLE_SINCE = 11  # of Produce
_IMPLICIT_PARTITIONS_SINCE = 12
_TRANSACTIONAL = 0x10
_PRODUCER = Struct(">h20xqh")  # attributes, producer id and epoch of a batch
_COORDINATOR_IS_BUSY = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OPERATION_NOT_ATTEMPTED,  # the coordinator does not know another partition yet
)


async def admit(
    request: "Request[bodies.ProduceRequest]",
    session: Session,
    batches: dict[Place, Batch | Refused],
    budget: StepBudget,
) -> None:
    """Wait until the partitions are in their producers' transactions; refuse batches of others."""
    transactional_id = request.body["transactional_id"]
    if transactional_id is None:
        return
    unadmitted: dict[tuple[int, int], dict[TopicPartition, Place]] = {}  # by producer
    for place, batch in batches.items():
        if isinstance(batch, Batch) and len(batch.records) >= BATCH_HEADER_BYTES:
            topic, log, records = batch
            attributes, producer_id, epoch = _PRODUCER.unpack_from(records, ATTRIBUTES_POSITION)
            # A batch that is in the log is a retry of a lost response: it needs no transaction.
            if (
                attributes & _TRANSACTIONAL
                and not log.admits_transaction(producer_id, epoch)
                and not log.has_batch(records)
            ):
                places = unadmitted.setdefault((producer_id, epoch), {})
                places[topic.name, log.partition] = place
        await budget.spend(PRODUCE_NAME_BYTES)
    for (producer_id, epoch), places in unadmitted.items():
        codes = await session.broker.transactions.admit(
            transactional_id,
            producer_id,
            epoch,
            list(places),
            adds_implicitly=request.version >= _IMPLICIT_PARTITIONS_SINCE,
        )
        for partition, code in codes.items():
            if code in _COORDINATOR_IS_BUSY:
                # The error that is retriable for every producer (KIP-890, ReplicaManager).
                batches[places[partition]] = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
            elif code is not ErrorCode.NONE:
                knows = request.version >= _ABORTABLE_SINCE
                batches[places[partition]] = Refused(abortable(code, supports_abortable=knows))


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
        return await broker.producer_ids.next_id()
    except StorageError as error:
        raise disk_refusal(error) from error
