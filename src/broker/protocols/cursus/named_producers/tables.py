"""The named producers of every partition with polylog.cursus.idempotent, kept over restarts.

A table is made on first use, from the checkpoint in the partition's folder and the records after
it. Records appended while the setting was off are read when it is on again. A changed table is
written periodically, and before retention or compaction removes records that it was made from. A
checkpoint never covers more than what is on the disk of the log, and below its high watermark.

A log that follows has a table only for its checkpoint. When its leader is another one, or this
broker again, the table is made anew: records above the high watermark may be others then.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, cast

from broker.core.logs.log import Log
from broker.core.logs.partition import acknowledgement
from broker.core.logs.reading import RunInThread
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.topic import Topic
from broker.model.clock import Clock
from broker.model.errors import CodecError, StorageError
from broker.model.limits import NAMED_PRODUCERS_WAIT_MS, PRODUCER_IDS_PER_PARTITION_MAX
from broker.protocols.cursus.named_producers import checkpoint, loading
from broker.protocols.cursus.named_producers.sequences import Sequences
from broker.protocols.cursus.settings import IDEMPOTENT

_NOT_LOADED: Final = -1
_log = logging.getLogger(__name__)


class FolderLog(Log, Protocol):
    """A log with a folder for the checkpoint."""

    @property
    def folder(self) -> str:
        """Its folder."""

    @property
    def topic(self) -> str:
        """The name of its topic."""

    @property
    def is_in_service(self) -> bool:
        """Whether it is loaded, and neither offline nor deleted."""


class _Table:
    """The producers of one partition."""

    __slots__ = ("config", "epoch", "lock", "read_end", "sequences", "writing", "written_offset")

    def __init__(self) -> None:
        self.sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        self.lock = asyncio.Lock()
        self.writing = asyncio.Lock()  # an older checkpoint must not replace a newer one
        self.config: object = None  # its topic's configuration when it was last up to date
        self.epoch = 0  # in which its log has led or followed then
        self.read_end = _NOT_LOADED  # records below this offset have been replayed
        self.written_offset = 0


class NamedProducers:
    """The tables of all partitions: a DerivedState."""

    name = "named producers"

    __slots__ = ("_clock", "_expiration_ms", "_io_thread", "_run_in_thread", "_tables")

    def __init__(
        self,
        clock: Clock,
        io_thread: IoThread,
        expiration_ms: Callable[[], int],
        run_in_thread: RunInThread,
    ) -> None:
        """Start without tables, which are made on first use."""
        self._clock = clock
        self._io_thread = io_thread
        self._expiration_ms = expiration_ms
        self._run_in_thread = run_in_thread
        self._tables: dict[Log, _Table] = {}

    @asynccontextmanager
    async def of(self, topic: Topic, log: Log) -> AsyncIterator[Sequences]:
        """Give exclusive access to a partition's producers, for an append.

        While the setting was off, records were appended without being tracked. So the log is read
        on from `read_end` whenever the topic's configuration is another than the last time.

        Raises StorageError when the log cannot be read, CodecError when it is damaged.
        """
        table = self._table(log)
        async with table.lock:
            await self._catch_up(topic, log, table)
            yield table.sequences
            if topic.config is table.config:
                table.read_end = log.log_end_offset

    def _table(self, log: Log) -> _Table:
        table = self._tables.get(log)
        if table is None:
            table = self._tables[log] = _Table()
        return table

    async def _catch_up(self, topic: Topic, log: Log, table: _Table) -> None:
        config = topic.config
        epoch = log.known_epoch
        if table.read_end == _NOT_LOADED or table.epoch != epoch:
            await self._load(log, table)
        elif table.config is not config:
            table.read_end = await self._read(log, table.sequences, table.read_end)
        table.config = config
        table.epoch = epoch

    async def _load(self, log: Log, table: _Table) -> None:
        folder = Path(log.folder)
        offset, producers = await self._io_thread.run(partial(checkpoint.read, folder))
        if offset > log.log_end_offset:
            offset, producers = 0, []  # the log has lost records that the checkpoint covers
        sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        sequences.restore(producers)
        table.read_end = await self._read(log, sequences, offset)
        table.sequences = sequences
        table.written_offset = offset

    async def _read(self, log: Log, sequences: Sequences, start: int) -> int:
        """Replay all records from an offset on; return where they end."""
        if not (log.is_follower or await _is_acknowledged(log, log.log_end_offset)):
            raise StorageError(f"{log.folder}: its log failed before its producers were read")
        return await loading.read(log, sequences, start, self._run_in_thread)

    def is_kept_for(self, topic: Topic) -> bool:
        """Whether the topic's partitions have named producers."""
        return topic.config.flag(IDEMPOTENT)

    def forget_topic(self, name: str) -> None:
        """Drop the tables of a deleted topic."""
        for log in [log for log in self._tables if cast("FolderLog", log).topic == name]:
            del self._tables[log]

    async def cover(self, places: Iterable[tuple[Topic, FolderLog]]) -> None:
        """Write the checkpoints of these logs, except those that are up to date.

        Raises StorageError when a file cannot be written. A log that cannot be read is skipped:
        its missing records will not become readable later.
        """
        for topic, log in places:
            try:
                if log.is_in_service:
                    await self._cover(topic, log)
            except (StorageError, FileNotFoundError):
                if log.is_in_service:
                    raise
            except CodecError as error:
                _log.warning("named producers not written: folder=%s error=%s", log.folder, error)

    async def _cover(self, topic: Topic, log: FolderLog) -> None:
        table = self._table(log)
        if _has_late_replicas(log) and not await _is_acknowledged(log, log.log_end_offset):
            return  # it is written with the next ones
        async with table.writing:
            async with table.lock:  # no append is between its append and its replay
                await self._catch_up(topic, log, table)
                offset = table.read_end if log.is_follower else log.log_end_offset
                if table.written_offset >= offset:
                    return
                table.sequences.forget_before(self._clock.aged_ms() - self._expiration_ms())
                image = table.sequences.image()
            if not log.is_follower and not (
                await _is_acknowledged(log, offset) and await _synced(log, offset)
            ):
                if _has_late_replicas(log):
                    return
                text = f"{log.folder}: its log failed before its producers were written"
                raise StorageError(text)
            write = partial(checkpoint.write, Path(log.folder), offset, image)
            await self._io_thread.run(write)
            table.written_offset = offset


def _has_late_replicas(log: Log) -> bool:
    return log.is_replicated and not log.is_follower and log.high_watermark < log.log_end_offset


async def _is_acknowledged(log: Log, offset: int) -> bool:
    """Wait until the high watermark is at an offset; for a bounded time if other replicas lag."""
    return (
        log.high_watermark >= offset
        or await acknowledgement(log, offset, NAMED_PRODUCERS_WAIT_MS) is None
    )


async def _synced(log: Log, offset: int) -> bool:
    """Wait until everything below the offset is on the disk; False when the log has failed."""
    synced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def finish(is_synced: bool) -> None:  # noqa: FBT001 (a callback of the native log)
        if not synced.done():
            synced.set_result(is_synced)

    log.when_synced(offset, finish)
    return await synced
