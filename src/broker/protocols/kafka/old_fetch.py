"""Fetch as consumers of the 0.8 to 0.10 era know it: v0-1 messages of magic 0, v2-3 of magic 1.

Batches are converted one by one, and as long as the fetch waits for more, what is converted already
is kept. Small plain batches are converted on the loop, a few before others have their turn, all
others in the thread that compresses. What has no messages, markers of transactions and what
compaction has emptied, is passed over: else a reader would ask for the same offset for ever. Old
consumers read uncommitted, up to the high watermark.

v0-2 end each partition at its limit, in the middle of a message if need be: readers drop the piece,
and one that gets nothing else knows that it has to ask for more. They have no limit for all
partitions together; because we have one, each fetch begins with another partition, so that all get
their turn. v3 returns whole messages, at least one in all (KIP-74), and its clients change the
order of the partitions themselves.
"""

from asyncio import get_running_loop
from collections.abc import Iterator
from functools import partial
from typing import Literal, NamedTuple

from broker.codec import scan_headers
from broker.core.log import Log
from broker.core.lookup import log_of, topic_by_name
from broker.core.session import Session
from broker.core.steps import next_step
from broker.core.topic import Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import (
    FETCH_WAIT_MS_MAX,
    OLD_FETCH_BATCHES_PER_TURN,
    OLD_FETCH_BYTES_MAX,
    OLD_FETCH_BYTES_PER_TURN,
)
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Fields, Request
from broker.protocols.kafka.old_messages import for_consumer

_MAGIC_1_SINCE = 2
_WHOLE_MESSAGES_SINCE = 3
_CODEC = 0x07
_CONTROL = 0x20


async def fetch(request: Request, session: Session) -> Fields:
    """Read and convert; if that is too little, wait and go on where it ended."""
    reading = _Reading(request, session)
    await reading.go_on()
    wait_ms = min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX)
    loop = get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while not reading.is_enough and (seconds_left := deadline - loop.time()) > 0:
        if not reading.has_more and not await session.broker.log_waiters.wait(
            reading.logs, seconds_left, request.share
        ):
            break  # others need the memory that the request takes
        await reading.go_on()
    return reading.response


class _Batch(NamedTuple):
    """A stored batch."""

    data: memoryview
    last_offset: int
    has_messages: bool
    is_slow: bool  # to convert


class _Pace:
    """Lets others have their turn of the loop now and then."""

    __slots__ = ("_bytes", "_pieces")

    def __init__(self) -> None:
        """Begin a turn."""
        self._pieces = self._bytes = 0

    async def take(self, size: int) -> None:
        """Count a batch of so many bytes, or a partition, that comes next."""
        self._pieces += 1
        self._bytes += size
        if self._pieces > OLD_FETCH_BATCHES_PER_TURN or self._bytes > OLD_FETCH_BYTES_PER_TURN:
            self._pieces, self._bytes = 1, size
            await next_step()


class _Part:
    """What one partition of the request has given so far."""

    __slots__ = ("_next", "error", "high_watermark", "is_full", "log", "messages", "size", "wanted")

    def __init__(self, wanted: Fields) -> None:
        """Begin with nothing."""
        self.wanted = wanted
        self.log: Log | None = None
        self.messages: list[bytes] = []
        self.size = 0
        self.is_full = False
        self.error = ErrorCode.NONE
        self.high_watermark = -1
        self._next: int = wanted["fetch_offset"]

    @property
    def has_more(self) -> bool:
        """Whether the log has grown since it was read."""
        return self.log is not None and not self.is_full and self._next < self.log.high_watermark

    @property
    def response(self) -> Fields:
        """Its part of the answer."""
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
        """The next batches of a log, none at its end."""
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

    def passed(self, batch: _Batch) -> None:
        """Go on behind a batch."""
        self._next = batch.last_offset + 1

    def put(self, batch: _Batch, messages: bytes) -> None:
        """Take the messages of a batch, and go on behind it."""
        self.passed(batch)
        if messages:
            self.messages.append(messages)
            self.size += len(messages)

    def end_with(self, error: RequestError) -> None:
        """End here; what there is comes first, and the next fetch begins with the error."""
        if self.messages:
            self.is_full = True
        else:
            self.error = error.code

    def cut(self, size: int) -> None:
        """Keep so many bytes."""
        self.messages = [b"".join(self.messages)[:size]]
        self.size = min(self.size, size)
        self.is_full = True

    @property
    def offset(self) -> int:
        """The first offset that the reader wants to have."""
        offset: int = self.wanted["fetch_offset"]
        return offset


class _Reading:
    """A request on its way to its answer."""

    __slots__ = ("_bytes_max", "_order", "_pace", "_request", "_session", "_size", "_topics")

    def __init__(self, request: Request, session: Session) -> None:
        """Begin with nothing read."""
        self._request = request
        self._session = session
        self._topics = [
            (topic["topic"], [_Part(each) for each in topic["partitions"]])
            for topic in request.body["topics"]
        ]
        self._order = [(name, part) for name, parts in self._topics for part in parts]
        if self._cuts and self._order:
            first = session.broker.clock.monotonic_ms() % len(self._order)
            self._order = self._order[first:] + self._order[:first]
        self._size = 0  # of all messages
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        self._bytes_max = min(request.body["max_bytes"], fetch_max, OLD_FETCH_BYTES_MAX)
        self._pace = _Pace()

    @property
    def _cuts(self) -> bool:
        """Whether a message may be cut at a partition's limit."""
        return self._request.version < _WHOLE_MESSAGES_SINCE

    @property
    def logs(self) -> list[Log]:
        """What can grow."""
        return [part.log for _, part in self._order if part.log is not None]

    @property
    def has_more(self) -> bool:
        """Whether there is something that was not there when it was read."""
        return any(part.has_more for _, part in self._order)

    @property
    def is_enough(self) -> bool:
        """Whether there is nothing to wait for."""
        return (
            not self._order
            or self._size >= self._request.body["min_bytes"]
            or any(part.is_full or part.error is not ErrorCode.NONE for _, part in self._order)
        )

    @property
    def response(self) -> Fields:
        """What has come together."""
        return {
            "responses": [
                {"topic": name, "partitions": [part.response for part in parts]}
                for name, parts in self._topics
            ]
        }

    async def go_on(self) -> None:
        """Read on in every partition."""
        for name, part in self._order:
            await self._pace.take(0)
            others = self._size - part.size
            try:
                await self._fill(name, part, others)
            except RequestError as error:
                part.end_with(error)
            self._size = others + part.size

    async def _fill(self, name: str, part: _Part, others: int) -> None:
        """Read on in one partition; `others` is the size of what the others have given."""
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
        self, topic: Topic, part: _Part, batches: list[_Batch], limit: int, *, is_cut: bool
    ) -> None:
        """Give a partition the messages of batches, up to its limit."""
        for batch in batches:
            await self._pace.take(len(batch.data))
            if not batch.has_messages:
                part.passed(batch)
                continue
            messages = await self._messages(topic, batch, part.offset)
            is_over = part.size + len(messages) > limit
            if is_over and part.messages and not is_cut:
                part.is_full = True  # whole messages only, at least those of one batch
                break
            part.put(batch, messages)
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
