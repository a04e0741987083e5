"""Fetch: committed records from an offset or from a group's committed offset, without waiting.

The two forms differ, as the original's document and clients do:

- With a group, the binary form starts at the committed offset and returns no records if there is
  none. JSON starts at the higher of the committed and the requested offset.
- At or beyond the end, the binary form returns the requested offset as the next one, JSON the end.
- Below the log start offset, the binary form returns no records and the first offset that exists,
  JSON an error.
"""

from contextlib import aclosing

from broker._native.protocols.rustlog.answer import FetchAnswerWriter
from broker.codec.headers import BatchHeader
from broker.core.forwarding import check_led
from broker.core.logs.log import Log
from broker.core.logs.reading import (
    CODEC,
    UNREADABLE,
    RunInThread,
    committed_batches,
    decompress_records,
)
from broker.model.errors import (
    CodecError,
    ErrorCode,
    LimitExceeded,
    RequestError,
    StorageError,
)
from broker.model.limits import RUSTLOG_FRAME_BYTES_MAX
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError, reason, refusal
from broker.protocols.rustlog.handlers.offsets import group_offset
from broker.protocols.rustlog.handlers.partitions import log_in_service, topic_of
from broker.protocols.rustlog.messages import Fetch, Fetched

_OPEN = "open"
_GAP = "gap"
_REFUSED = {
    "too large": "the record at offset {offset} does not fit into a frame: it has {size} bytes;"
    " go on at offset {after}",
    "corrupt": "the batch at offset {offset} is damaged; go on at offset {after}",
    "too much": "the batch at offset {offset} decompresses to too many bytes;"
    " go on at offset {after}",
    "no memory": "no memory for the answer",
}


async def handle(request: Fetch, call: Call) -> Fetched:
    """Read up to the last stable offset, the requested maximum and the size of a frame."""
    begun_ns = call.counters.now_ns()
    start = request.offset
    if call.broker.links is not None:
        _check_led(request, call)
    if request.group is not None:
        committed = await group_offset(
            call, request.group, request.topic, request.partition, Failure.FETCH
        )
        if call.form.is_json:
            start = max(start, committed or 0)
        elif committed is None:
            return _nothing(call, 0)
        else:
            start = committed
    topic = topic_of(call, request.topic, request.partition)
    log = log_in_service(call, topic, request.partition, Failure.FETCH)
    try:
        weight = min(request.bytes_max, RUSTLOG_FRAME_BYTES_MAX)
        async with call.broker.long_answers.turn(None, 0, weight):
            fetched = await _read(request, call, log, start)
    except StorageError:
        text = reason(ErrorCode.KAFKA_STORAGE_ERROR)
        raise RefusalError(Failure.FETCH, reason=text) from None
    except CodecError as error:
        raise RefusalError(Failure.FETCH, reason=str(error)) from None
    call.counters.add_fetch_latency(call.counters.now_ns() - begun_ns)
    return fetched


def _check_led(request: Fetch, call: Call) -> None:
    """Raise ElsewhereError if another broker leads the partition: it asks for the group's offset.

    What does not exist is none of its errors yet: a group without an offset comes first.
    """
    topic = call.broker.topics.get(request.topic)
    if topic is not None:
        try:
            check_led(call.session, topic, request.partition)
        except RequestError as error:
            raise refusal(Failure.FETCH, error) from None


async def _read(request: Fetch, call: Call, log: Log, start: int) -> Fetched:
    end = log.last_stable_offset
    is_json = call.form.is_json
    if is_json and start < log.log_start_offset:
        raise RefusalError(Failure.OFFSET_OUT_OF_RANGE)
    if start >= end:
        return _nothing(call, end if is_json else start)
    if not is_json and request.bytes_max == 0:
        return _nothing(call, start)
    if start < log.log_start_offset:
        return _nothing(call, await _first_offset(call, log, end))
    answer = FetchAnswerWriter(start, request.bytes_max, is_json=is_json)
    await _fill(answer, call, log, start)
    call.counters.messages_fetched += answer.count
    call.counters.bytes_out += answer.payload_bytes
    return Fetched(answer.finish(_next_offset(answer, end)))


async def _first_offset(call: Call, log: Log, end: int) -> int:
    """Return the offset of the first record that still exists."""
    start = log.log_start_offset
    answer = FetchAnswerWriter(start, 1, is_json=False)
    await _fill(answer, call, log, start)
    return start if answer.count > 0 else _next_offset(answer, end)


async def _fill(answer: FetchAnswerWriter, call: Call, log: Log, start: int) -> None:
    run_in_thread = call.broker.recompression.run
    async with aclosing(committed_batches(log, start)) as batches:
        async for header, batch in batches:
            after = header.last_offset + 1
            try:
                records = await _decompressed(header, batch, run_in_thread)
            except UNREADABLE as error:
                if answer.count == 0:  # otherwise the next fetch gets the error
                    status = "too much" if isinstance(error, LimitExceeded) else "corrupt"
                    raise _refused(status, max(start, header.base_offset), after) from None
                break
            answer.add(batch, records)
            if answer.status in _REFUSED:
                offset = answer.next_offset
                is_large = answer.status == "too large"
                raise _refused(
                    answer.status, offset, offset + 1 if is_large else after, answer.large_size
                )
            if answer.status != _OPEN:
                break


def _refused(status: str, offset: int, after: int, size: int = 0) -> RefusalError:
    text = _REFUSED[status].format(offset=offset, after=after, size=size)
    return RefusalError(Failure.FETCH, reason=text)


async def _decompressed(
    header: BatchHeader, batch: memoryview, run_in_thread: RunInThread
) -> bytes | None:
    if header.attributes & CODEC == 0:
        return None
    return await decompress_records(header, batch, run_in_thread)


def _next_offset(answer: FetchAnswerWriter, end: int) -> int:
    """Return the offset after the last record; without records the next one, or the log's end."""
    is_known = answer.count > 0 or answer.status == _GAP
    return answer.next_offset if is_known else end


def _nothing(call: Call, next_offset: int) -> Fetched:
    return Fetched(FetchAnswerWriter(0, 0, is_json=call.form.is_json).finish(next_offset))
