"""Rebuilds the state of named producers from the records of a log.

Records that were removed, and batches that cannot be read, are missing: the latter are skipped with
a warning, and their sequences are taken to be those that are missing between their neighbours'.
Batches of Kafka's idempotent producers do not count: the log itself checks their sequences, and
such headers in them are copies from other records.
"""

import logging
from collections.abc import AsyncIterator
from functools import partial

from broker._native.protocols.cursus.batch import SEQUENCE, sequence_of
from broker._native.records.record_batch import validate
from broker.codec.columns import records
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.logs.log import Log
from broker.core.logs.reading import CODEC, UNREADABLE, RunInThread, decode_limited
from broker.core.scheduling.steps import in_steps, next_step
from broker.model.limits import NAMED_PRODUCERS_LOADED_PER_TURN, READ_BYTES_PER_STEP
from broker.protocols.cursus.named_producers.sequences import Run, Sequences

_log = logging.getLogger(__name__)


class _SequenceRun:
    """Consecutive records with consecutive sequences, and the time of the last one."""

    __slots__ = ("epoch", "first", "last", "producer_id", "time_ms")

    def __init__(self, producer_id: bytes, epoch: int, sequence: int, time_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.first = self.last = sequence
        self.time_ms = time_ms


_Runs = list[_SequenceRun | None]  # of a batch, in order; None where records are missing


async def read(log: Log, sequences: Sequences, start: int, run_in_thread: RunInThread) -> int:
    """Replay the records from an offset up to the high watermark; return where that ends.

    The loop serves others in between. Raises StorageError when the log goes offline, CodecError
    when the codec of a batch is not installed.
    """
    expected = start
    try:
        async for header, batch in _batches(log, start):
            if header.base_offset > expected:
                sequences.begin_gap()
            if header.producer_id < 0:
                await _replay(sequences, await _runs_of(batch, header, start, run_in_thread))
            expected = header.last_offset + 1
    finally:
        sequences.end_load()
    return expected


async def _batches(log: Log, offset: int) -> AsyncIterator[tuple[BatchHeader, bytes]]:
    """Yield every batch up to the current high watermark, control batches too."""
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
    run_in_thread: RunInThread,
) -> _Runs:
    is_plain = not header.attributes & CODEC
    is_whole = header.record_count == header.last_offset - header.base_offset + 1
    if is_plain and is_whole and SEQUENCE not in batch and validate(batch) is None:
        return []
    try:
        return await decode_limited(header, partial(_decode, batch, header, start), run_in_thread)
    except UNREADABLE as error:
        offset = header.base_offset
        _log.warning("batch not read for its named producers: offset=%d error=%s", offset, error)
        return [None]


def _decode(batch: bytes, header: BatchHeader, start: int, bytes_max: int) -> _Runs:
    runs: _Runs = []
    last_run: _SequenceRun | None = None
    follows = None  # producer, epoch and sequence of a record that would extend the run
    expected = max(header.base_offset, start)
    for record in records(batch, bytes_max=bytes_max):
        offset = record.offset
        if offset < start:
            continue
        if offset > expected:
            runs.append(None)
            follows = None
        expected = offset + 1
        found = sequence_of(record.headers)
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
