"""Reads the ranges of offsets of a Spark task as Arrow batches."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from broker.client.fetch import Chunk, Range, fetch
from broker.client.metadata import GONE, Cluster
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.model.errors import ErrorCode, RequestError
from broker.pipeline.decoding import Decoder, Selection
from broker.pipeline.source.planning import Task
from broker.pipeline.source.settings import Settings
from broker.pipeline.source.topics import report_loss

if TYPE_CHECKING:
    import pyarrow as pa

_LOST = GONE | {ErrorCode.OFFSET_OUT_OF_RANGE}


def read_task(settings: Settings, task: Task, selection: Selection) -> Iterator["pa.RecordBatch"]:
    """Yield the records of all ranges; the next chunk is fetched while Spark uses a batch.

    Raises:
        DataLoss: records of the range were deleted, and failOnDataLoss is true.
        RequestError, Unreachable, PeerError: an error, no answer, or an invalid answer of the
            broker.
        CodecError: the batches are damaged.
    """
    cluster = settings.cluster()
    for part in task:
        chunks = _chunks(cluster, settings, part)
        decoder = Decoder(part.topic, part.partition, selection)
        for chunk in chunks:
            yield from decoder.batches(chunk.data, chunk.start, part.end, chunk.aborted)


def _chunks(cluster: Cluster, settings: Settings, part: Range) -> Iterator[Chunk]:
    """Yield the chunks of a range; those that were deleted are reported and left out."""
    position, key, is_lost = part.start, (part.topic, part.partition), False
    while position < part.end:
        try:
            if not is_lost:
                for chunk in _prefetched(cluster, settings, part._replace(start=position)):
                    yield chunk
                    position = chunk.next_offset
                return
            ids, is_committed = {part.topic: part.topic_id}, settings.is_committed
            earliest, latest = (
                list_offsets(cluster, {key: edge}, is_committed=is_committed, topic_ids=ids)[key]
                for edge in (EARLIEST, LATEST)
            )
            if not position < earliest.offset < latest.offset:
                return
            position, is_lost = earliest.offset, False
        except RequestError as error:
            if error.code not in (GONE if is_lost else _LOST):
                raise
            report_loss(settings, [f"{part.topic}-{part.partition} at offset {position}: {error}"])
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                return  # the topic was deleted
            is_lost = True


def _prefetched(cluster: Cluster, settings: Settings, part: Range) -> Iterator[Chunk]:
    """Yield the chunks of a range; the next one is fetched while the caller uses one.

    The thread waits no longer than the client does. A range of one chunk needs no thread.
    """
    chunks = fetch(
        cluster, part, is_committed=settings.is_committed, bytes_max=settings.chunk_bytes
    )
    chunk = next(chunks, None)
    if chunk is None or chunk.next_offset >= part.end:
        yield from () if chunk is None else (chunk,)
        return
    with ThreadPoolExecutor(1, "polylog-prefetch") as thread:
        while chunk is not None:
            following = thread.submit(next, chunks, None)
            yield chunk
            chunk = following.result()
