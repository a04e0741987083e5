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
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.logs.log import Log
from broker.core.scheduling.steps import StepBudget
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.topics.lookup import log_of
from broker.model.errors import RequestError
from broker.model.limits import (
    FETCH_WAIT_MS_MAX,
    OLD_FETCH_BATCH_BYTES,
    OLD_FETCH_BYTES_PER_TURN,
    PYTHON_FETCH_BYTES_MAX,
)
from broker.protocols.kafka.old_messages import Converter
from broker.protocols.kafka.old_partition import OldPartition
from broker.protocols.kafka.throttling import fetch_bytes_max

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.protocols.kafka.api import Request

_MAGIC_1_SINCE = 2
_WHOLE_MESSAGES_SINCE = 3


async def fetch(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse":
    """Read and convert; below `min_bytes`, wait for more data and continue."""
    reading = _Reading(request, session)
    loop = get_running_loop()
    await reading.read_more()
    deadline = loop.time() + min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX) / 1000
    while not reading.is_enough and (seconds_left := deadline - loop.time()) > 0:
        if not reading.has_more and not await session.broker.log_waiters.wait(
            reading.logs, seconds_left, request.share
        ):
            break  # other requests need its memory
        await reading.read_more()
    return reading.response


class _Reading:
    """The state of a fetch request."""

    __slots__ = (
        "_bytes_max",
        "_converter",
        "_cuts",
        "_min_bytes",
        "_order",
        "_session",
        "_size",
        "_topics",
    )

    def __init__(self, request: "Request[bodies.FetchRequest]", session: Session) -> None:
        """Begin without data."""
        self._session = session
        self._min_bytes = request.body["min_bytes"]
        # Whether a message may be cut at a partition's limit.
        self._cuts = request.version < _WHOLE_MESSAGES_SINCE
        self._topics = [
            (topic["topic"], [OldPartition(each) for each in topic["partitions"]])
            for topic in request.body["topics"]
        ]
        self._order = [(name, part) for name, parts in self._topics for part in parts]
        if self._cuts and self._order:
            first = session.broker.clock.monotonic_ms() % len(self._order)
            self._order = self._order[first:] + self._order[:first]
        self._size = 0  # of all messages
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        self._bytes_max = min(
            request.body["max_bytes"], fetch_max, PYTHON_FETCH_BYTES_MAX, fetch_bytes_max(session)
        )
        self._converter = Converter(
            1 if request.version >= _MAGIC_1_SINCE else 0,
            session.broker.recompression,
            StepBudget(OLD_FETCH_BYTES_PER_TURN),
        )

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
            or self._size >= self._min_bytes
            or any(part.is_full or part.has_failed for _, part in self._order)
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
            await self._converter.budget.spend(OLD_FETCH_BATCH_BYTES)
            if part.is_full:
                continue
            others = self._size - part.size  # of all other partitions' messages
            left = self._bytes_max - others
            limit = min(part.wanted["partition_max_bytes"], left)
            is_cut = self._cuts and limit < left
            try:
                topic = access.topic_named(self._session, Operation.READ, name)
                log = log_of(topic, part.wanted["partition"])
                needs_one = limit > 0 if is_cut else others == 0
                await part.read(
                    log, topic.config, self._converter, limit, needs_one=needs_one, is_cut=is_cut
                )
            except RequestError as error:
                part.stop_with(error)
            self._size = others + part.size
