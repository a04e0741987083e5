"""What the records of a log say about their named producers.

Records that are not there any more say nothing, nor do those that cannot be read: those are
stepped over with a warning, and what they said is taken to be what their neighbours leave open.
Batches of a producer with a number of Kafka's are none of a named one's: the log knows its
sequences, and headers that it brings are copies.
"""

import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

from broker._native.records.record_batch import validate
from broker.codec.columns import records
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.log import Log
from broker.core.named_producers.sequences import Run, Sequences
from broker.core.reading import UNREADABLE, RunInThread, decode_limited
from broker.core.steps import in_steps, next_step
from broker.model.limits import NAMED_PRODUCERS_LOADED_PER_TURN, READ_BYTES_PER_STEP

_COMPRESSION = 0x07  # in a batch's attributes
_log = logging.getLogger(__name__)


class SequenceHeaders(NamedTuple):
    """How records say who wrote them, in their dialect.

    Attributes:
        mark: what stands in the bytes of every record that says it.
        sequence_of: producer id, epoch and sequence that a record's headers say; None: nothing.
    """

    mark: bytes
    sequence_of: Callable[[list[tuple[bytes, bytes | None]]], tuple[bytes, int, int] | None]


class _SequenceRun:
    """Records in a row that say sequences in a row; the time is the last one's."""

    __slots__ = ("epoch", "first", "last", "producer_id", "time_ms")

    def __init__(self, producer_id: bytes, epoch: int, sequence: int, time_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.first = self.last = sequence
        self.time_ms = time_ms


_Runs = list[_SequenceRun | None]  # by a batch, in order; None where records are missing


async def read(
    log: Log, sequences: Sequences, start: int, headers: SequenceHeaders, run_in_thread: RunInThread
) -> int:
    """Learn from the records from an offset on, up to what can be read now; where that ends.

    The loop has its turn in between. StorageError when the log goes offline, CodecError when a
    batch cannot be read for want of a package.
    """
    expected = start
    try:
        async for header, batch in _batches(log, start):
            if header.base_offset > expected:
                sequences.begin_gap()
            if header.producer_id < 0:
                await _replay(
                    sequences, await _runs_of(batch, header, start, headers, run_in_thread)
                )
            expected = header.last_offset + 1
    finally:
        sequences.end_load()
    return expected


async def _batches(log: Log, offset: int) -> AsyncIterator[tuple[BatchHeader, bytes]]:
    """Every batch up to the high watermark as it is at the call, control batches too."""
    end = log.high_watermark
    while (offset := max(offset, log.log_start_offset)) < end:
        data = log.read(offset, READ_BYTES_PER_STEP, True, end)
        headers = list(scan_headers(data))
        if not headers:
            return
        for header in headers:
            yield header, data[header.position : header.position + header.size]
        offset = headers[-1].last_offset + 1
        await next_step()


async def _runs_of(
    batch: bytes,
    header: BatchHeader,
    start: int,
    headers: SequenceHeaders,
    run_in_thread: RunInThread,
) -> _Runs:
    is_plain = not header.attributes & _COMPRESSION
    is_whole = header.record_count == header.last_offset - header.base_offset + 1
    if is_plain and is_whole and headers.mark not in batch and validate(batch) is None:
        return []
    try:
        return await decode_limited(
            header, partial(_decode, batch, header, start, headers), run_in_thread
        )
    except UNREADABLE as error:
        offset = header.base_offset
        _log.warning("batch not read for its named producers: offset=%d error=%s", offset, error)
        return [None]


def _decode(
    batch: bytes, header: BatchHeader, start: int, headers: SequenceHeaders, bytes_max: int
) -> _Runs:
    runs: _Runs = []
    last_run: _SequenceRun | None = None
    follows = None  # what a record says that goes on with it
    expected = max(header.base_offset, start)
    for record in records(batch, bytes_max=bytes_max):
        offset = record.offset
        if offset < start:
            continue
        if offset > expected:
            runs.append(None)
            follows = None
        expected = offset + 1
        found = headers.sequence_of(record.headers)
        if found is None:
            continue
        producer_id, epoch, sequence = found
        if last_run is not None and found == follows:
            last_run.last = sequence
            last_run.time_ms = record.timestamp
        else:
            last_run = _SequenceRun(producer_id, epoch, sequence, record.timestamp)
            runs.append(last_run)
        follows = (producer_id, epoch, sequence + 1)
    if expected <= header.last_offset:
        runs.append(None)
    return runs


async def _replay(sequences: Sequences, runs: _Runs) -> None:
    async for each in in_steps(runs, NAMED_PRODUCERS_LOADED_PER_TURN):
        if each is None:
            sequences.begin_gap()
        else:
            count = each.last - each.first + 1
            run = Run(each.producer_id, each.epoch, each.first, each.last, count)
            sequences.replay([run], each.time_ms)
