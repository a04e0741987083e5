"""Records one by one, for dialects whose answers are no batches.

They have no isolation levels: everybody reads what is committed, up to the last stable offset.
Control batches are stepped over, and so are the records of aborted transactions.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from broker.codec.columns import Columns, decode_columns
from broker.codec.compression import decompress
from broker.codec.control_records import is_control, is_transactional
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.log import Log
from broker.core.partition import BATCH_HEADER_BYTES
from broker.core.steps import next_step
from broker.model.errors import Corrupt, LimitExceeded, Truncated
from broker.model.limits import (
    READ_BYTES_PER_STEP,
    READ_DECOMPRESSED_BYTES_MAX,
    READ_DECOMPRESSED_BYTES_PER_TURN,
    RECORDS_READ_PER_TURN,
    decompressed_bytes_max,
)

# What a stored batch can be that is no failure of the disk: damaged, or too much of it unfolded.
UNREADABLE = (Corrupt, LimitExceeded, Truncated)
CODEC: Final = 0x07  # of a batch's attributes; 0: it is not compressed
_T = TypeVar("_T")
# Producer id, first offset and marker's offset of an aborted transaction.
_Aborted = tuple[int, int, int]
_Batch = tuple[BatchHeader, memoryview]


class RunInThread(Protocol):
    """Does slow work beside the loop, as Recompression.run."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Return what the work returns."""


class StoredValue(NamedTuple):
    """A record as those dialects know it."""

    offset: int
    value: memoryview | None  # None: null


class Unreadable(NamedTuple):
    """Records that are stepped over: those of one batch from an offset on."""

    offset: int
    last_offset: int
    reason: str


async def committed_batches(log: Log, offset: int) -> AsyncGenerator[_Batch, None]:
    """The batches that have the committed records, as they are stored; the first may begin before.

    The loop has its turn between two reads; who does more with a batch gives it another.
    StorageError when the log goes offline.
    """
    end = log.last_stable_offset
    while (offset := max(offset, log.log_start_offset)) < end:
        data = memoryview(log.read(offset, READ_BYTES_PER_STEP, True, end))
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
    """The value of every record from an offset on, up to the last stable offset of the call.

    Below the log start the first one is the first that there still is. The loop has its turn in
    between. A batch that cannot be read is stepped over, and told. StorageError when the log goes
    offline, CodecError when what follows a batch cannot be found, or read for want of a package.
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
                if given % RECORDS_READ_PER_TURN == 0:
                    await next_step()


async def _columns(
    batches: AsyncGenerator[_Batch, None], offset: int, run_in_thread: RunInThread
) -> AsyncGenerator[Columns | Unreadable, None]:
    """What each batch holds from the offset on."""
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
    """What a stored batch holds: `decode` is told how many bytes it may unfold to.

    A little is unfolded at once, and the loop has its turn behind it, whatever came of it; more of
    it beside the loop. UNREADABLE is what cannot be unfolded.
    """
    if header.size <= READ_DECOMPRESSED_BYTES_PER_TURN:
        with suppress(LimitExceeded):
            try:
                return decode(READ_DECOMPRESSED_BYTES_PER_TURN)
            finally:
                await next_step()
    bytes_max = max(READ_DECOMPRESSED_BYTES_MAX, decompressed_bytes_max(header.size))
    return await run_in_thread(partial(decode, bytes_max))


async def decompress_records(
    header: BatchHeader, batch: memoryview | bytes, run_in_thread: RunInThread
) -> bytes:
    """What stands behind the header of a compressed batch, in the same way."""
    compressed = batch[BATCH_HEADER_BYTES:]
    return await decode_limited(
        header, partial(decompress, header.attributes & CODEC, compressed), run_in_thread
    )


def _is_aborted(header: BatchHeader, aborted: list[_Aborted]) -> bool:
    return is_transactional(header) and any(
        producer_id == header.producer_id and first <= header.base_offset < marker
        for producer_id, first, marker in aborted
    )
