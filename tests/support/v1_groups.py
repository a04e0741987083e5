"""A coordinator over one log in memory, and its surroundings for the import of V1's files."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from broker.core.coordination.partitions import Environment
from broker.core.groups.commands.offsets import FetchOffsetsRequest
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import GroupSettings
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.errors import ErrorCode, RequestError
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog


class V1Groups:
    """Groups, the topic they live in, a clock that stands, and a folder."""

    def __init__(self, folder: Path) -> None:
        """Begin without the topic."""
        self.folder = folder
        self.clock = ManualClock()
        self.io_thread = IoThread()
        self.logs: dict[int, MemoryLog] = {}
        self.has_topic = False
        self.is_broken = False
        self.has_slow_disk = False  # nothing is durable before `sync_until` says so
        self.groups = self.start()

    def start(self) -> GroupCoordinator:
        """Return a coordinator that finds the logs as they are."""
        return GroupCoordinator(
            Environment(
                self._open,
                lambda: asyncio.get_running_loop().create_future(),
                self.clock,
                lambda _: None,
            ),
            topics=FakeTopics(),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
        )

    def _open(self, partition: int) -> MemoryLog:
        if not self.has_topic:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.logs.setdefault(partition, MemoryLog(syncs=not self.has_slow_disk))

    # ---- the topics ----------------------------------------------------------------------------

    def get(self, name: str) -> object | None:
        """Return whether the topic exists."""
        return self if self.has_topic and name == OFFSETS_TOPIC else None

    async def offsets_topic(self) -> object:
        """Create the topic."""
        if self.is_broken:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        self.has_topic = True
        return self

    # ---- disk ----------------------------------------------------------------------------------

    async def write(self, work: Callable[[], None]) -> bool:
        """Do the work of the I/O thread; return whether it was done."""
        if not self.is_broken:
            work()
        return not self.is_broken

    async def sync_until(self, work: "asyncio.Future[None]", seconds: float = 0) -> int:
        """Sync all logs repeatedly until the work is done; return how often."""
        count = 0
        while not work.done():
            await asyncio.sleep(seconds or 0.001)
            for log in self.logs.values():
                log.sync()
            count += 1
        await work
        for log in self.logs.values():
            log.syncs = True
        return count

    async def offsets(self, group_id: str) -> dict[str, dict[int, int]]:
        """Return the committed offsets of a group."""
        response = await self.groups.fetch_offsets(FetchOffsetsRequest(group_id, None))
        return {
            topic: {number: each.offset for number, each in partitions.items() if each}
            for topic, partitions in response.topics.items()
        }
