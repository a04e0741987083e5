"""Records read one by one, for protocols whose responses are not batches.

These protocols have no isolation levels: every reader gets committed records, up to the last stable
offset. Control batches and the records of aborted transactions are skipped.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from broker.codec.columns import Columns, decode_columns
from broker.codec.compression import decompress
from broker.codec.control_records import is_control, is_transactional
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.logs.log import Log
from broker.core.logs.partition import BATCH_HEADER_BYTES
from broker.core.scheduling.steps import next_step
from broker.model import limits
from broker.model.errors import Corrupt, LimitExceeded, Truncated

# Errors of a stored batch that are not the disk's: damaged, or too large when decompressed.
UNREADABLE = (Corrupt, LimitExceeded, Truncated)
CODEC: Final = 0x07  # of a batch's attributes; 0: it is not compressed
_T = TypeVar("_T")
# Producer id, first offset and marker's offset of an aborted transaction.
_Aborted = tuple[int, int, int]
_Batch = tuple[BatchHeader, memoryview]


class RunInThread(Protocol):
    """Runs slow work in a thread, as Recompression.run."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Return the result of the work."""


class StoredValue(NamedTuple):
    """A record without its key and headers."""

    offset: int
    value: memoryview | None  # None: null


class Unreadable(NamedTuple):
    """Records that are skipped: those of one batch, from an offset on."""

    offset: int
    last_offset: int
    reason: str


async def committed_batches(log: Log, offset: int) -> AsyncGenerator[_Batch, None]:
    """Yield the stored batches that have committed records; the first may begin before `offset`.

    The loop serves others between two reads; a caller with more work per batch yields by itself.
    Raises StorageError when the log goes offline.
    """
    end = log.last_stable_offset
    while (offset := max(offset, log.log_start_offset)) < end:
        data = memoryview(log.read(offset, limits.READ_BYTES_PER_STEP, True, end))
        headers = list(scan_headers(data))
        if not headers:
            return
        after = headers[-1].last_offset + 1
        aborted = log.aborted_transactions(offset, after)
        for header in headers:
            if not (is_control(header) or _is_aborted(header, aborted)):
                yield header, data[header.position : header.position + header.size]
        offset = max(after, offset + 1)
        await next_step()


async def committed_values(
    log: Log, offset: int, run_in_thread: RunInThread
) -> AsyncGenerator[StoredValue | Unreadable, None]:
    """Yield the value of every record from an offset on, up to the current last stable offset.

    Reading begins at the log start offset if that is greater. The loop serves others in between. A
    batch that cannot be read is skipped and yielded as Unreadable. Raises StorageError when the log
    goes offline; CodecError when the next batch cannot be found, or its codec is not installed.
    """
    given = 0
    offset = max(offset, log.log_start_offset)
    batches = committed_batches(log, offset)
    async with aclosing(_columns(batches, offset, run_in_thread)) as found:
        async for columns in found:
            if isinstance(columns, Unreadable):
                yield columns
                continue
            data = memoryview(columns.data)
            rows = zip(
                memoryview(columns.column("offset")),
                memoryview(columns.column("value_start")),
                memoryview(columns.column("value_length")),
                strict=True,
            )
            for at, start, length in rows:
                yield StoredValue(at, None if length < 0 else data[start : start + length])
                given += 1
                if given % limits.RECORDS_READ_PER_TURN == 0:
                    await next_step()


async def _columns(
    batches: AsyncGenerator[_Batch, None], offset: int, run_in_thread: RunInThread
) -> AsyncGenerator[Columns | Unreadable, None]:
    """Yield what each batch holds from the offset on."""
    async with aclosing(batches):
        async for header, batch in batches:
            try:
                columns = await decode_limited(
                    header, partial(_decode, batch, offset), run_in_thread
                )
            except UNREADABLE as error:
                yield Unreadable(max(offset, header.base_offset), header.last_offset, str(error))
            else:
                yield columns


def _decode(batch: memoryview, offset: int, bytes_max: int) -> Columns:
    return decode_columns(
        batch, columns=("offset", "value"), min_offset=offset, bytes_max=bytes_max
    )


async def decode_limited(
    header: BatchHeader, decode: Callable[[int], _T], run_in_thread: RunInThread
) -> _T:
    """Decode a stored batch: `decode` gets the limit of the decompressed bytes.

    A small batch is decoded at once, and the loop serves others after it; a larger one is decoded
    in the thread. Raises what UNREADABLE lists.
    """
    if header.size <= limits.READ_DECOMPRESSED_BYTES_PER_TURN:
        with suppress(LimitExceeded):
            try:
                return decode(limits.READ_DECOMPRESSED_BYTES_PER_TURN)
            finally:
                await next_step()
    bytes_max = max(limits.READ_DECOMPRESSED_BYTES_MAX, limits.decompressed_bytes_max(header.size))
    return await run_in_thread(partial(decode, bytes_max))


async def decompress_records(
    header: BatchHeader, batch: memoryview | bytes, run_in_thread: RunInThread
) -> bytes:
    """Return the decompressed records of a batch, in the same way."""
    compressed = batch[BATCH_HEADER_BYTES:]
    return await decode_limited(
        header, partial(decompress, header.attributes & CODEC, compressed), run_in_thread
    )


def _is_aborted(header: BatchHeader, aborted: list[_Aborted]) -> bool:
    return is_transactional(header) and any(
        producer_id == header.producer_id and first <= header.base_offset < marker
        for producer_id, first, marker in aborted
    )
