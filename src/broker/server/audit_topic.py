"""The audit's lines in the topic `__audit`: records whose key is the id of the broker.

A broker writes to the first partition that it leads, or sends its lines to the leader of the first
one. Lines wait here, a bounded number of them, while the topic cannot be written; those that there
is no room for are in the file only.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from broker.codec.encoding import encode
from broker.core.logs.log import Log
from broker.core.logs.partition import append, wait_durable
from broker.core.remote_appends import RemoteAppends
from broker.core.service import Service
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.core.writing import batch_bytes_max
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, LimitExceeded, RequestError, StorageError
from broker.model.security_limits import (
    AUDIT_STOP_SECONDS,
    AUDIT_TOPIC_BATCH_BYTES,
    AUDIT_TOPIC_LINES_MAX,
    AUDIT_TOPIC_RETRY_MS,
)

_RECORD_BYTES_MAX = 64  # of a record without its value
_log = logging.getLogger(__name__)


class AuditTopic(Service):
    """Writes lines to the topic as they come."""

    name = "audit topic"

    def __init__(
        self, topics: Topics, broker_id: int, clock: Clock, others: RemoteAppends | None
    ) -> None:
        """Write nothing yet; `others` appends to what other brokers lead. None: there are none."""
        self._others = others
        self._topics = topics
        self._key = str(broker_id).encode()
        self._clock = clock
        self._lines: deque[bytes] = deque()
        self._left_out = 0  # lines that there was no room for
        self._came = asyncio.Event()

    def add(self, lines: Sequence[bytes]) -> None:
        """Take lines that are in the file."""
        room = AUDIT_TOPIC_LINES_MAX - len(self._lines)
        self._lines.extend(lines[:room])
        self._left_out += max(0, len(lines) - room)
        self._came.set()

    async def run(self) -> None:
        """Write lines; wait while the topic cannot be written."""
        failure = ""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._lines:
                try:
                    await self._write()
                except (RequestError, StorageError) as error:
                    if str(error) != failure:
                        failure = str(error)
                        _log.warning("the audit is in its file only, for now: error=%s", error)
                    await asyncio.sleep(AUDIT_TOPIC_RETRY_MS / 1000)
                else:
                    failure = ""
            self._report_left_out()

    async def stop(self) -> None:
        """Write the lines that are left, if that is possible."""
        try:
            async with asyncio.timeout(AUDIT_STOP_SECONDS):
                while self._lines:
                    await self._write()
        except (RequestError, StorageError, TimeoutError):
            self._left_out += len(self._lines)
        self._report_left_out()

    def _report_left_out(self) -> None:
        if self._left_out:
            _log.warning("events of the audit are in its file only: count=%d", self._left_out)
            self._left_out = 0

    async def _write(self) -> None:
        """Write the oldest lines, as many as are one batch. Raises RequestError, StorageError."""
        topic = await self._topics.audit_topic()
        bytes_max = min(batch_bytes_max(topic), AUDIT_TOPIC_BATCH_BYTES)
        count = _count_in(self._lines, bytes_max)
        rows = [(self._key, self._lines[place]) for place in range(count)]
        now_ms = self._clock.wall_ms()
        try:
            [batch] = encode(rows, batch_bytes_max=batch_bytes_max(topic), timestamp_ms=now_ms)
        except LimitExceeded:
            self._left_out += 1
            self._lines.popleft()
            return
        await self._append(topic, batch, now_ms, count)
        for _ in rows:
            self._lines.popleft()

    async def _append(self, topic: Topic, batch: bytes, now_ms: int, count: int) -> None:
        log = _own_log(topic)
        if log is not None:
            result = append(log, topic.config, batch, now_ms)
            if not await wait_durable(log, result.base_offset + count):
                raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR)
        elif self._others is not None:
            await self._others.append(topic.name, 0, batch)
        else:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _own_log(topic: Topic) -> Log | None:
    """Return the log of the first partition that this broker leads, if it is in service."""
    for log in topic.led_logs:
        if log.is_led and not (log.is_loading or log.is_offline):
            return log
    return None


def _count_in(lines: deque[bytes], bytes_max: int) -> int:
    """Return how many of the first lines are one batch: one, at least."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + _RECORD_BYTES_MAX
        if size > bytes_max:
            return max(1, count)
    return len(lines)
