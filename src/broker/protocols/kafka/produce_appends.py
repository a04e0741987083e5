"""The appends of a Produce request: each batch is checked, prepared and written."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.core.logs.partition import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    acknowledgement,
    append,
)
from broker.core.logs.recompression import KeylessRecordsError, Preparation, prepare
from broker.core.scheduling.steps import StepBudget
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PRODUCE_NAME_BYTES, PRODUCE_PARTITION_BYTES
from broker.protocols.kafka.old_messages import Conversion, is_message_set
from broker.protocols.kafka.produce_response import Batch, Place, Refused, Written

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.protocols.kafka.api import Request

ACKS_ALL = -1
_MAGIC_2_SINCE = 3
_ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
_CODEC = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10


async def append_all(
    request: "Request[bodies.ProduceRequest]",
    session: Session,
    batches: Mapping[Place, Batch | Refused],
    budget: StepBudget,
) -> dict[Place, Written | Refused]:
    """Append in request order; with another acks than 0, wait until all is durable.

    With acks=1 that is on this broker, with acks=-1 on all replicas in sync (for a partition that
    has only this one, both are the same).
    """
    outcomes: dict[Place, Written | Refused] = {}
    for place, batch in batches.items():
        cost = PRODUCE_PARTITION_BYTES
        if isinstance(batch, Refused):
            outcomes[place] = batch
            session.broker.metrics.counters.failed_writes += 1
        else:
            cost += len(batch.records)
            try:
                written = outcomes[place] = await _append(request, session, batch)
                session.has_written(written.log, written.appended.end_offset)
            except RequestError as error:
                places = tuple(error.places) if isinstance(error, KeylessRecordsError) else ()
                outcomes[place] = Refused(error.code, error.message, places)
                batch.log.failed_writes += 1
                batch.log.rejected_bytes += len(batch.records)
        await budget.spend(cost)
    if request.body["acks"] == 0:
        return outcomes
    is_for_all = request.body["acks"] == ACKS_ALL
    begun_ms = session.broker.clock.monotonic_ms()
    for place, outcome in outcomes.items():
        if isinstance(outcome, Written):
            log, appended = outcome
            spent_ms = session.broker.clock.monotonic_ms() - begun_ms
            left_ms = max(1, request.body["timeout_ms"] - spent_ms)
            code = await acknowledgement(log, appended.end_offset, left_ms, is_for_all=is_for_all)
            if code and log.is_led:
                outcomes[place] = Refused(code)
                log.failed_writes += 1
        await budget.spend(PRODUCE_NAME_BYTES)
    return outcomes


async def _append(
    request: "Request[bodies.ProduceRequest]", session: Session, batch: Batch
) -> Written:
    """Check, prepare and append one batch; RequestError is the partition's answer.

    Nothing waits between the look at the topic's configuration and the append, unless the batch is
    compressed anew, so that an altered configuration is in force from the next append on.
    """
    topic, log, records = batch
    config, broker = topic.config, session.broker
    if broker.topics.by_id(topic.topic_id) is not topic:  # deleted since it was looked up
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_ID
            if request.version >= TOPIC_IDS_SINCE
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    preparation = _preparation(request, batch)
    is_for_all = request.body["acks"] == ACKS_ALL

    def write(prepared: bytes) -> Written:
        now_ms = broker.clock.wall_ms()
        return Written(log, append(log, config, prepared, now_ms, is_for_all=is_for_all))

    if preparation is None:
        return write(records)
    if not preparation.is_slow:
        return write(preparation.run())
    return await broker.recompression.append(preparation, write)


def _preparation(
    request: "Request[bodies.ProduceRequest]", batch: Batch
) -> Conversion | Preparation | None:
    """Check what depends on the API version; return the work before the append, or None.

    v0-2 have message sets, which are converted to batches (old_messages.py).
    """
    config, records = batch.topic.config, batch.records
    if is_message_set(records):
        if request.version < _MAGIC_2_SINCE:
            return Conversion(records, config)
        text = f"Produce v{request.version} takes batches of magic 2 only"
        raise RequestError(ErrorCode.INVALID_RECORD, text)
    if len(records) >= BATCH_HEADER_BYTES:  # the log refuses a shorter one
        attributes = records[ATTRIBUTES_POSITION + 1]
        if attributes & _CODEC == _ZSTD and request.version < _ZSTD_SINCE:
            raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if attributes & _TRANSACTIONAL and request.body["transactional_id"] is None:
            raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return prepare(config, records)
