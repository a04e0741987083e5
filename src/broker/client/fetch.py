"""The batches of an offset range of one partition, in chunks, as the broker stores them.

A range is read once, so no fetch session is used. Topics are named by id if the broker has ids
(Fetch 13 and later), so that a topic that was deleted and created again is not mistaken for the
requested one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker import codec
from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.model.address import Address
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import (
    CLIENT_FETCH_BYTES,
    CLIENT_FETCH_BYTES_MIN,
    CLIENT_FETCH_WAIT_MS,
)

if TYPE_CHECKING:
    from broker.codec import bodies

_FETCH: "Api[bodies.FetchRequest, bodies.FetchResponse]" = Api("Fetch", range(4, 18), as_views=True)
_FETCH_BY_NAME = _FETCH._replace(versions=range(4, 13))
_RECORD_BYTES_GUESS = 1024  # the size of a record that the first Fetch of a range assumes


class Range(NamedTuple):
    """An offset range of one partition, without `end`; topic_id as in metadata.Topic, or empty."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


class Chunk(NamedTuple):
    """Whole batches; the first may begin before the range, the last may end after it.

    start is the first offset that belongs to it, next_offset that of the next chunk. aborted has
    (producer id, first offset) of aborted transactions, as decode_columns takes them; None for
    read_uncommitted.
    """

    data: memoryview
    start: int
    next_offset: int
    aborted: list[tuple[int, int]] | None


def fetch(
    cluster: Cluster,
    part: Range,
    *,
    is_committed: bool = False,
    bytes_max: int = CLIENT_FETCH_BYTES,
    clock: Clock | None = None,
) -> Iterator[Chunk]:
    """Yield the batches of an offset range.

    Args:
        cluster: the cluster.
        part: the range; its end is at most the high watermark, or the last stable offset if
            `is_committed`.
        is_committed: fetch with isolation level read_committed.
        bytes_max: of a chunk; a larger batch is returned whole.
        clock: for the timeout.

    Raises:
        RequestError: OFFSET_OUT_OF_RANGE, the log starts after the range's start or ends before
            its end; UNKNOWN_TOPIC_ID, the topic was deleted, or deleted and created again; or
            another error of a broker.
        Unreachable: neither the leader nor a new one has responded in time.
        PeerError: a response is invalid.
    """
    clock = clock or SystemClock()
    position, bytes_per_offset = part.start, float(_RECORD_BYTES_GUESS)
    waits_until = 0.0
    while position < part.end:
        # 5% more than expected, to avoid a second small request.
        expected = (part.end - position) * bytes_per_offset * 1.05
        size = int(min(expected + CLIENT_FETCH_BYTES_MIN, bytes_max))
        found = _ask(cluster, part, position, size, is_committed=is_committed)
        if not found["records"]:
            end = found["last_stable_offset"] if is_committed else found["high_watermark"]
            if end >= part.end:
                return  # compaction has removed the rest of the range
            waits_until = waits_until or clock.monotonic_ms() + cluster.give_up_seconds * 1000
            if clock.monotonic_ms() >= waits_until:
                raise RequestError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{cluster}: {part.topic}-{part.partition} ends at offset {end},"
                    f" expected it to reach {part.end}",
                )
            continue
        waits_until = 0
        data = memoryview(found["records"])
        headers = codec.scan_headers(data)
        if not len(headers) or headers[-1].last_offset < position:
            raise PeerError(
                f"{cluster}: asked for {part.topic}-{part.partition} at offset {position},"
                f" got {len(data)} bytes without a batch of that offset"
            )
        next_offset = headers[-1].last_offset + 1
        bytes_per_offset = headers.end / max(next_offset - headers[0].base_offset, 1)
        aborted = None
        if is_committed:
            transactions = found["aborted_transactions"] or ()
            aborted = [(each["producer_id"], each["first_offset"]) for each in transactions]
        yield Chunk(data[: headers.end], position, next_offset, aborted)
        position = next_offset


def _ask(
    cluster: Cluster, part: Range, position: int, size: int, *, is_committed: bool
) -> "bodies.FetchResponsePartition":
    """Fetch from the leader of the partition."""
    body: bodies.FetchRequest = {
        "max_wait_ms": CLIENT_FETCH_WAIT_MS,
        "min_bytes": 1,
        "max_bytes": size,
        "isolation_level": int(is_committed),
        "topics": [
            {
                "topic": part.topic,
                "topic_id": bytes.fromhex(part.topic_id) or bytes(16),
                "partitions": [
                    {
                        "partition": part.partition,
                        "fetch_offset": position,
                        "partition_max_bytes": size,
                    }
                ],
            }
        ],
    }

    def read(address: Address, answer: "bodies.FetchResponse") -> "bodies.FetchResponsePartition":
        what = f"{address}: Fetch of {part.topic}-{part.partition} at offset {position}"
        found = [each for topic in answer["responses"] for each in topic["partitions"]]
        check(answer["error_code"], what)
        for each in found:
            check(each["error_code"], what)
        if not found:
            raise PeerError(f"{what}: the response does not contain the partition")
        return found[0]

    [found] = cluster.ask_leaders(
        [(part.topic, part.partition)],
        _FETCH if part.topic_id else _FETCH_BY_NAME,
        lambda _: body,
        read,
        topic_ids={part.topic: part.topic_id},
    )
    return found
