"""A partition's log of named producers' records, and the producers expected to be known."""

import asyncio
from pathlib import Path
from typing import Any

from broker.codec.encoding import encode
from broker.core.logs.recompression import Recompression
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.topic import Topic
from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.protocols.cursus.named_producers.checkpoint import FILE_NAME
from broker.protocols.cursus.named_producers.sequences import ProducerCheckpoint
from broker.protocols.cursus.named_producers.tables import NamedProducers
from tests.support.manual_clock import ManualClock
from tests.support.native_log import NOW_MS, TOPIC_ID, Logs

EXPIRATION_MS = 1_000


class Partition:
    """A log of named producers' records, whose turns a test ends."""

    def __init__(self, path: Path) -> None:
        self._logs = Logs(path)
        self.log: Any = self._logs.create(is_group_commit=False)
        self.topic = Topic("topic", TOPIC_ID, TopicConfig({}, load()), [self.log])
        self.io_thread = IoThread()
        self.recompression = Recompression()
        self.clock = ManualClock(NOW_MS)

    def append(
        self,
        *sequences: int,
        name: bytes = b"p",
        epoch: int = 1,
        value: bytes = b"v",
        ends_turn: bool = True,
        **encoding: Any,
    ) -> None:
        headers = [
            [
                ("cursus.producer_id", name),
                ("cursus.seq_num", b"%d" % each),
                ("cursus.epoch", b"%d" % epoch),
            ]
            for each in sequences
        ]
        rows: Any = [(None, value, each) for each in headers]
        for batch in encode(rows, timestamp_ms=NOW_MS, batch_bytes_max=1 << 30, **encoding):
            assert self.log.append(batch)[0] == 0
        if ends_turn:
            self.end_turn()

    def end_turn(self) -> None:
        """End the turn, so that appended records can be read."""
        self._logs.turn.end()

    @property
    def places(self) -> list[tuple[Topic, Any]]:
        return [(self.topic, self.log)]

    def alter_topic(self) -> None:
        """Change its configuration."""
        self.topic.config = TopicConfig({}, load())

    def damage(self, old: bytes, new: bytes) -> None:
        """Change bytes on the disk."""
        [file] = self._logs.folder().glob("*.log")
        file.write_bytes(file.read_bytes().replace(old, new))

    @property
    def file(self) -> Path:
        return self._logs.folder() / FILE_NAME

    def fresh(self) -> NamedProducers:
        """Return the state after a start."""
        return NamedProducers(
            self.clock,
            self.io_thread,
            lambda: EXPIRATION_MS,
            self.recompression.run,
        )

    def known(self, named: NamedProducers) -> list[ProducerCheckpoint]:
        async def image() -> list[ProducerCheckpoint]:
            async with named.of(self.topic, self.log) as sequences:
                return sequences.image()

        return self.run(image())

    def run(self, work: Any) -> Any:
        async def synced() -> Any:
            task = asyncio.ensure_future(work)
            while not task.done():
                self._logs.turn.end()
                self._logs.turn.poll_synced()
                await asyncio.sleep(0.001)
            return await task

        return asyncio.run(synced())


def known(
    done: int, ahead: tuple[tuple[int, int], ...] = (), name: bytes = b"p", largest: int = 1
) -> ProducerCheckpoint:
    return ProducerCheckpoint(name, 1, done, largest, NOW_MS, ahead)
