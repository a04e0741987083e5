"""Produce: the records of a request get consecutive offsets, also with concurrent writers.

The response is sent when they are as durable as their topic requires. A refused request writes
nothing, unless the disk fails between two of its batches.
"""

from collections.abc import AsyncIterator

from broker._native.protocols.rustlog.record_run import RunBatches
from broker.core.forwarding import check_led
from broker.core.logs.partition import until_acknowledged
from broker.core.scheduling.steps import next_step
from broker.core.topics.topic import Topic
from broker.core.writing import batch_bytes_max, write_batches
from broker.model.errors import ErrorCode, LimitExceeded, RequestError
from broker.model.limits import RUSTLOG_RECORD_BYTES_MAX
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, refusal
from broker.protocols.rustlog.handlers.partitions import log_in_service, topic_of
from broker.protocols.rustlog.messages import Produce, Produced


async def handle(request: Produce, call: Call) -> Produced:
    """Append the records and return their offsets."""
    begun_ns = call.counters.now_ns()
    topic = topic_of(call, request.topic, request.partition)
    if request.records.length == 0:
        log = log_in_service(call, topic, request.partition, Failure.WRITE)
        return Produced(log.log_end_offset, 0)
    try:
        check_led(call.session, topic, request.partition)
        produced = await _append(request, call, topic)
    except RequestError as error:
        raise refusal(Failure.WRITE, error) from None
    call.counters.add_produce_latency(call.counters.now_ns() - begun_ns)
    return produced


async def _append(request: Produce, call: Call, topic: Topic) -> Produced:
    made = RunBatches(
        *request.records,
        batch_bytes_max=batch_bytes_max(topic),
        timestamp_ms=call.broker.clock.wall_ms(),
    )
    count = request.records.length
    written = await write_batches(call.broker, topic, request.partition, _batches(made, count))
    call.counters.messages_produced += count
    call.counters.bytes_in += made.payload_bytes
    await until_acknowledged(written.log, written.end_offset)
    return Produced(written.base_offset, count)


async def _batches(made: RunBatches, count: int) -> AsyncIterator[bytes]:
    """Yield the records as batches, one in each turn of the loop."""
    try:
        while (batch := made.next()) is not None:
            if count == 1 and made.payload_bytes > RUSTLOG_RECORD_BYTES_MAX:
                text = f"no answer to a fetch has room for a record of {made.payload_bytes} bytes"
                raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
            yield batch
            await next_step()
    except LimitExceeded as error:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
