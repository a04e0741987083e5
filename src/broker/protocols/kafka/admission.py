"""Transactional batches of a Produce request: whether their logs may take them (KIP-890).

The native path appends what a log has admitted. The first batch of a transaction in a partition
comes here: from v12 on it adds the partition to the transaction, before that it must have been
added. A coordinator that cannot say now is no reason to give up: NOT_ENOUGH_REPLICAS, as in Kafka,
is what every producer tries again after.
"""

from struct import Struct
from typing import Final

from broker.core.log import Log
from broker.core.partition import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES
from broker.core.session import Session
from broker.core.transactions.records import Place
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Request

_ABORTABLE_SINCE = 11
_IMPLICIT_SINCE = 12
_TRANSACTIONAL = 0x10
_PRODUCER: Final = Struct(">qh")
_PRODUCER_POSITION = 43
_LATER = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def is_transactional(records: bytes) -> bool:
    """Whether a batch belongs to a transaction."""
    return (
        len(records) >= BATCH_HEADER_BYTES
        and records[ATTRIBUTES_POSITION + 1] & _TRANSACTIONAL != 0
    )


def is_admitted(log: Log, records: bytes) -> bool:
    """Whether a log takes a batch, as far as its transaction goes."""
    return not is_transactional(records) or log.admits_transaction(*_producer(records))


async def admit(
    request: Request, session: Session, batches: dict[Place, bytes]
) -> dict[Place, RequestError]:
    """Ask the coordinator to have these batches admitted; why not, for those that are not."""
    producers: dict[tuple[int, int], list[Place]] = {}
    for place, records in batches.items():
        producers.setdefault(_producer(records), []).append(place)
    refused: dict[Place, RequestError] = {}
    for (producer_id, epoch), places in producers.items():
        codes = await session.broker.transactions.admit(
            request.body["transactional_id"],
            producer_id,
            epoch,
            places,
            adds_implicitly=request.version >= _IMPLICIT_SINCE,
        )
        for place, code in codes.items():
            if code is not ErrorCode.NONE:
                refused[place] = RequestError(_said(code, request.version), _text(code))
    return refused


def _producer(records: bytes) -> tuple[int, int]:
    producer_id, epoch = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return producer_id, epoch


def _said(code: ErrorCode, version: int) -> ErrorCode:
    """The code that a producer of this version knows what to do with."""
    if code in _LATER:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _IMPLICIT_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return code


def _text(code: ErrorCode) -> str:
    return f"the partition is not part of an ongoing transaction: {code.value}"
