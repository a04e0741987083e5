"""The records of partitions, in ranges of offsets, and those that are still to come.

A log may lose its oldest records while it is read: by retention, or by DeleteRecords. A reader that
wants to know what it has missed goes on with what is left.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from broker import codec
from broker.client.fetch import Chunk, Range, fetch
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.codec import BatchHeader, Record
from broker.model.errors import CodecError, ErrorCode, RequestError

_POLL_SECONDS: Final = 0.1


class Read(NamedTuple):
    """A record and its partition."""

    topic: str
    partition: int
    record: Record


class Missed(NamedTuple):
    """Offsets, without `end`, whose records were deleted before they were read."""

    topic: str
    partition: int
    start: int
    end: int


def read(
    cluster: Cluster,
    part: Range,
    *,
    is_committed: bool = True,
    when_missed: Callable[[Missed], None] | None = None,
) -> Iterator[Read]:
    """Yield the records of an offset range.

    Args:
        cluster: the cluster.
        part: the range.
        is_committed: without those of transactions that are open or were aborted.
        when_missed: called when records are deleted before they are read; it goes on with those
            that are left. None: this is an error.

    Raises:
        RequestError: CORRUPT_MESSAGE, a batch is damaged, and all before it was yielded; or as
            `fetch`.
        Unreachable, PeerError: as `fetch`.
    """
    rest = part
    while rest.start < part.end:
        try:
            for chunk in fetch(cluster, rest, is_committed=is_committed):
                yield from _records(cluster, part, chunk)
                rest = rest._replace(start=chunk.next_offset)
        except RequestError as error:
            if when_missed is None or error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            first = _log_start(cluster, part)
            if first <= rest.start:
                raise  # its end is missing
            end = min(first, part.end)
            when_missed(Missed(part.topic, part.partition, rest.start, end))
            rest = rest._replace(start=end)
        else:
            return


def _log_start(cluster: Cluster, part: Range) -> int:
    key = part.topic, part.partition
    found = list_offsets(cluster, {key: EARLIEST}, topic_ids={part.topic: part.topic_id})
    return found[key].offset


def _records(cluster: Cluster, part: Range, chunk: Chunk) -> Iterator[Read]:
    position = chunk.start
    try:
        for each in codec.records(chunk.data, aborted=chunk.aborted):
            if position <= each.offset < part.end:
                yield Read(part.topic, part.partition, each)
                position = each.offset + 1
    except CodecError as error:
        # The batches before it may have been decoded together with it: they come alone now.
        batch = _batch_at(chunk, error.position or 0)
        if batch.position:
            whole = chunk._replace(data=chunk.data[: batch.position], start=position)
            yield from _records(cluster, part, whole)
        if batch.base_offset < part.end:
            raise _damaged(cluster, part, batch, error) from None


def _batch_at(chunk: Chunk, position: int) -> BatchHeader:
    """Return the header of the batch at a position in bytes."""
    headers = codec.scan_headers(chunk.data)
    return next(each for each in reversed(headers) if each.position <= position)


def _damaged(cluster: Cluster, part: Range, batch: BatchHeader, error: CodecError) -> RequestError:
    """Return the error for a batch that cannot be read."""
    name = f"{cluster}: {part.topic}-{part.partition}"
    offsets = f"the batch of offsets {batch.base_offset} to {batch.last_offset}"
    return RequestError(ErrorCode.CORRUPT_MESSAGE, f"{name}: {offsets} is damaged: {error.reason}")


def follow(
    cluster: Cluster,
    starts: Mapping[Partition, int],
    topic_ids: Mapping[str, str],
    *,
    is_committed: bool = True,
    when_missed: Callable[[Missed], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Read | None]:
    """Yield the records from offsets on, without an end; None when there are no more at the moment.

    Args:
        cluster: the cluster.
        starts: the first offset of each partition.
        topic_ids: the ids of the topics.
        is_committed: as of `read`.
        when_missed: as of `read`.
        sleep: waits for seconds.

    Raises:
        RequestError, Unreachable, PeerError: as `fetch`.
    """
    positions = dict(starts)
    while True:
        ends = list_offsets(
            cluster,
            dict.fromkeys(positions, LATEST),
            is_committed=is_committed,
            topic_ids=topic_ids,
        )
        new = {key: found.offset for key, found in ends.items() if found.offset > positions[key]}
        for (topic, partition), end in sorted(new.items()):
            part = Range(topic, topic_ids[topic], partition, positions[topic, partition], end)
            yield from read(cluster, part, is_committed=is_committed, when_missed=when_missed)
            positions[topic, partition] = end
        if not new:
            yield None
            sleep(_POLL_SECONDS)
