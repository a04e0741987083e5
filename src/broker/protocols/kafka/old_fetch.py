"""Fetch v0-3, of consumers of Kafka 0.8 to 0.10: v0-1 with messages of magic 0, v2-3 of magic 1.

Batches are converted one by one; while the fetch waits for more data, the converted messages are
kept. Small uncompressed batches are converted on the event loop, a few per turn, all others in the
compression thread. Batches without messages, control batches and those that compaction has emptied,
are skipped: otherwise a consumer would request the same offset forever. Old consumers read
uncommitted data, up to the high watermark.

v0-2 cut each partition at its limit, even in the middle of a message: consumers drop the partial
message, and one that gets nothing else detects that its limit is too small. These versions have no
limit over all partitions; because the broker has one, each fetch begins with another partition, so
that no partition starves. v3 returns whole messages, at least one in total (KIP-74), and its
clients rotate the partitions themselves.
"""

from asyncio import get_running_loop
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from broker.codec import scan_headers
from broker.core.logs.log import Log
from broker.core.scheduling.steps import StepBudget
from broker.core.session import Session
from broker.core.topics.lookup import log_of, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import (
    FETCH_WAIT_MS_MAX,
    OLD_FETCH_BATCH_BYTES,
    OLD_FETCH_BYTES_PER_TURN,
    PYTHON_FETCH_BYTES_MAX,
)
from broker.protocols.kafka import errors
from broker.protocols.kafka.old_messages import for_consumer

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.protocols.kafka.api import Request

_MAGIC_1_SINCE = 2
_WHOLE_MESSAGES_SINCE = 3
_CODEC = 0x07
_CONTROL = 0x20


async def fetch(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse":
    """Read and convert; below `min_bytes`, wait for more data and continue."""
    reading = _Reading(request, session)
    await reading.read_more()
    wait_ms = min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX)
    loop = get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while not reading.is_enough and (seconds_left := deadline - loop.time()) > 0:
        if not reading.has_more and not await session.broker.log_waiters.wait(
            reading.logs, seconds_left, request.share
        ):
            break  # other requests need its memory
        await reading.read_more()
    return reading.response


class _Batch(NamedTuple):
    """A stored batch."""

    data: memoryview
    last_offset: int
    has_messages: bool
    is_slow: bool  # to convert


class _PartitionRead:
    """The data read from one partition of the request so far."""

    __slots__ = ("_next", "error", "high_watermark", "is_full", "log", "messages", "size", "wanted")

    def __init__(self, wanted: "bodies.FetchRequestPartition") -> None:
        """Begin without data."""
        self.wanted = wanted
        self.log: Log | None = None
        self.messages: list[bytes] = []
        self.size = 0
        self.is_full = False
        self.error = ErrorCode.NONE
        self.high_watermark = -1
        self._next = wanted["fetch_offset"]

    @property
    def has_more(self) -> bool:
        """Whether the log has data after the last read."""
        return self.log is not None and not self.is_full and self._next < self.log.high_watermark

    @property
    def response(self) -> "bodies.FetchResponsePartition":
        """The partition's part of the response."""
        index = self.wanted["partition"]
        if self.error is not ErrorCode.NONE:
            return {
                "partition_index": index,
                "error_code": errors.old_number(self.error),
                "high_watermark": -1,
                "records": b"",
            }
        return {
            "partition_index": index,
            "error_code": 0,
            "high_watermark": self.high_watermark,
            "records": b"".join(self.messages),
        }

    def read(self, log: Log, size_max: int, *, at_least_one: bool) -> list[_Batch]:
        """Read the next batches of a log; empty at its end."""
        self.log = log
        if not log.log_start_offset <= self._next <= log.log_end_offset:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.high_watermark = end = log.high_watermark
        if self._next >= end:
            return []
        some = min(size_max, OLD_FETCH_BYTES_PER_TURN)
        try:
            data = log.read(self._next, some, at_least_one or some < size_max, end)
        except StorageError as error:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self.is_full = not data
        return list(_batches(data))

    def skip(self, batch: _Batch) -> None:
        """Continue after a batch."""
        self._next = batch.last_offset + 1

    def add(self, batch: _Batch, messages: bytes) -> None:
        """Add the messages of a batch, and continue after it."""
        self.skip(batch)
        if messages:
            self.messages.append(messages)
            self.size += len(messages)

    def stop_with(self, error: RequestError) -> None:
        """Stop at an error; after messages it is left to the next fetch."""
        if self.messages:
            self.is_full = True
        else:
            self.error = error.code

    def cut(self, size: int) -> None:
        """Cut the messages to so many bytes."""
        self.messages = [b"".join(self.messages)[:size]]
        self.size = min(self.size, size)
        self.is_full = True

    @property
    def offset(self) -> int:
        """The requested offset."""
        return self.wanted["fetch_offset"]


class _Reading:
    """The state of a fetch request."""

    __slots__ = ("_budget", "_bytes_max", "_order", "_request", "_session", "_size", "_topics")

    def __init__(self, request: "Request[bodies.FetchRequest]", session: Session) -> None:
        """Begin without data."""
        self._request = request
        self._session = session
        self._topics = [
            (topic["topic"], [_PartitionRead(each) for each in topic["partitions"]])
            for topic in request.body["topics"]
        ]
        self._order = [(name, part) for name, parts in self._topics for part in parts]
        if self._cuts and self._order:
            first = session.broker.clock.monotonic_ms() % len(self._order)
            self._order = self._order[first:] + self._order[:first]
        self._size = 0  # of all messages
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        self._bytes_max = min(request.body["max_bytes"], fetch_max, PYTHON_FETCH_BYTES_MAX)
        self._budget = StepBudget(OLD_FETCH_BYTES_PER_TURN)

    @property
    def _cuts(self) -> bool:
        """Whether a message may be cut at a partition's limit."""
        return self._request.version < _WHOLE_MESSAGES_SINCE

    @property
    def logs(self) -> list[Log]:
        """The logs to wait for."""
        return [part.log for _, part in self._order if part.log is not None]

    @property
    def has_more(self) -> bool:
        """Whether a log has data after its last read."""
        return any(part.has_more for _, part in self._order)

    @property
    def is_enough(self) -> bool:
        """Whether the fetch can be answered without waiting."""
        return (
            not self._order
            or self._size >= self._request.body["min_bytes"]
            or any(part.is_full or part.error is not ErrorCode.NONE for _, part in self._order)
        )

    @property
    def response(self) -> "bodies.FetchResponse":
        """The response from the data read so far."""
        return {
            "responses": [
                {"topic": name, "partitions": [part.response for part in parts]}
                for name, parts in self._topics
            ]
        }

    async def read_more(self) -> None:
        """Continue reading in every partition."""
        for name, part in self._order:
            await self._spend(0)
            others = self._size - part.size
            try:
                await self._fill(name, part, others)
            except RequestError as error:
                part.stop_with(error)
            self._size = others + part.size

    async def _spend(self, size: int) -> None:
        """Count the next partition, or batch of so many bytes."""
        await self._budget.spend(max(size, OLD_FETCH_BATCH_BYTES))

    async def _fill(self, name: str, part: _PartitionRead, others: int) -> None:
        """Continue reading in one partition; `others` is the size of all other partitions' data."""
        left = self._bytes_max - others
        limit = min(part.wanted["partition_max_bytes"], left)
        is_cut = self._cuts and limit < left
        while not part.is_full:
            if part.messages and part.size >= limit:
                part.is_full = True
                break
            topic = topic_by_name(self._session.broker.topics, name)
            log = log_of(topic, part.wanted["partition"])
            at_least_one = limit > 0 if is_cut else others + part.size == 0
            batches = part.read(log, max(limit - part.size, 0), at_least_one=at_least_one)
            if not batches:
                break
            await self._convert(topic, part, batches, limit, is_cut=is_cut)

    async def _convert(
        self, topic: Topic, part: _PartitionRead, batches: list[_Batch], limit: int, *, is_cut: bool
    ) -> None:
        """Convert batches and add their messages to a partition, up to its limit."""
        for batch in batches:
            await self._spend(len(batch.data))
            if not batch.has_messages:
                part.skip(batch)
                continue
            messages = await self._messages(topic, batch, part.offset)
            is_over = part.size + len(messages) > limit
            if is_over and part.messages and not is_cut:
                part.is_full = True  # whole messages only, at least those of one batch
                break
            part.add(batch, messages)
            if is_over and is_cut:
                part.cut(limit)
                break

    async def _messages(self, topic: Topic, batch: _Batch, offset: int) -> bytes:
        magic: Literal[0, 1] = 1 if self._request.version >= _MAGIC_1_SINCE else 0
        convert = partial(for_consumer, batch.data, magic, offset, topic.config)
        if batch.is_slow:
            return await self._session.broker.recompression.run(convert)
        return convert()


def _batches(data: bytes) -> Iterator[_Batch]:
    whole = memoryview(data)
    for header in scan_headers(data):
        yield _Batch(
            whole[header.position : header.position + header.size],
            header.last_offset,
            has_messages=header.record_count > 0 and not header.attributes & _CONTROL,
            is_slow=header.attributes & _CODEC != 0 or header.size > OLD_FETCH_BYTES_PER_TURN,
        )
