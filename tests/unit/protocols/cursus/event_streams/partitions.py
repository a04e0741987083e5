"""A partition of events, without a broker; lookups that a test holds up in their thread."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.codec.encoding import encode
from broker.core.topics.topic import Topic
from broker.model.config import load
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS, TopicConfig
from broker.protocols.cursus.event_streams.file import FILE_NAME, StreamFile
from broker.protocols.cursus.event_streams.partition_streams import PartitionStreams
from tests.support.native_log import NOW_MS, TOPIC_ID, Logs

WAIT_SECONDS = 60


class Partition:
    """A log of events, whose turns are ended while something is awaited."""

    def __init__(self, path: Path) -> None:
        """Create the log."""
        self.logs = Logs(path)
        self.log: Any = self.logs.create(is_group_commit=False)
        config = TopicConfig({EVENT_SOURCING: "true", **STREAM_SETTINGS}, load())
        self.topic = Topic("topic", TOPIC_ID, config, [self.log])

    def write(self, key: bytes, version: int, name: bytes = b"cursus.aggregate_version") -> int:
        """Append a record as an event, without telling anybody."""
        rows: Any = [(key, b"event %d" % version, [(name, b"%d" % version)])]
        [batch] = encode(rows, timestamp_ms=NOW_MS, batch_bytes_max=1 << 30)
        result = self.log.append(batch)
        assert result[0] == 0
        self.logs.turn.end()
        return int(result.base_offset)

    def append(self, streams: PartitionStreams, key: bytes, version: int) -> int:
        """Append an event as the handler does."""
        offset = self.write(key, version)
        streams.appended(key, version, offset)
        return offset

    def run(self, work: Any) -> Any:
        """Run a coroutine, and turns while it waits."""

        async def served() -> Any:
            task = asyncio.ensure_future(work)
            while not task.done():
                self.logs.turn.end()
                self.logs.turn.poll_synced()
                await asyncio.sleep(0.001)
            return await task

        return asyncio.run(served())

    @property
    def file(self) -> Path:
        """The file of its streams."""
        return self.logs.folder() / FILE_NAME

    @property
    def places(self) -> list[tuple[Topic, Any]]:
        """What `EventStreams.cover` takes."""
        return [(self.topic, self.log)]


class HeldInThread:
    """Has a method of StreamFile wait in the thread before it does anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """Hold the first call of the method, and those behind it."""
        self._begun, self._may_go_on = threading.Event(), threading.Event()
        method = getattr(StreamFile, name)

        def held(file: StreamFile, **arguments: Any) -> Any:
            self._begun.set()
            assert self._may_go_on.wait(WAIT_SECONDS)
            if self.error is not None:
                raise self.error
            return method(file, **arguments)

        self.error: Exception | None = None
        monkeypatch.setattr(StreamFile, name, held)

    async def wait(self) -> None:
        """Wait until it has been called."""
        while not self._begun.is_set():
            await asyncio.sleep(0.001)

    def go_on(self) -> None:
        """Let it do its work."""
        self._may_go_on.set()
