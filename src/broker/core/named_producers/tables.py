"""The named producers of every partition that asks for them: loaded, and kept over a restart.

A table is made when somebody first asks for it: from the checkpoint in the partition's folder, and
the records behind it. It is written again when it has changed: once in a while, and before records
that it was made of are taken away. A checkpoint is never ahead of what the disk has of the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from broker.core.io_thread import IoThread
from broker.core.log import Log
from broker.core.named_producers.sequences import Known, Run, Sequences
from broker.core.reading import Unreadable, uncommitted
from broker.model.clock import Clock
from broker.model.errors import CodecError, StorageError
from broker.model.limits import NAMED_PRODUCERS_LOADED_PER_TURN, PRODUCER_IDS_PER_PARTITION_MAX
from broker.storage import named_producers
from broker.storage.named_producers import StoredProducer

_log = logging.getLogger(__name__)


class FolderLog(Log, Protocol):
    """A log that has a place for a file beside it."""

    @property
    def folder(self) -> str:
        """Where its files are."""

    @property
    def topic(self) -> str:
        """Its topic's name."""

    @property
    def is_in_service(self) -> bool:
        """Whether it is loaded, and neither offline nor deleted."""


# (producer id, epoch, sequence) that the headers of a record say; None: nothing to check.
SequenceOf = Callable[[list[tuple[bytes, bytes | None]]], tuple[bytes, int, int] | None]


class _Table:
    """One partition's."""

    __slots__ = ("is_loaded", "lock", "sequences", "written_offset")

    def __init__(self) -> None:
        self.sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        self.lock = asyncio.Lock()
        self.is_loaded = False
        self.written_offset = 0


class NamedProducers:
    """The tables of all partitions."""

    __slots__ = ("_clock", "_expiration_ms", "_io_thread", "_sequence_of", "_tables")

    def __init__(
        self,
        clock: Clock,
        io_thread: IoThread,
        expiration_ms: Callable[[], int],
        sequence_of: SequenceOf,
    ) -> None:
        """Know the words in which records say who wrote them."""
        self._clock = clock
        self._io_thread = io_thread
        self._expiration_ms = expiration_ms
        self._sequence_of = sequence_of
        self._tables: dict[Log, _Table] = {}

    @asynccontextmanager
    async def of(self, log: Log) -> AsyncIterator[Sequences]:
        """What is known of a partition's producers, for one who appends to it; others wait.

        StorageError when it cannot be found out, CodecError when the log is damaged.
        """
        table = self._tables.get(log)
        if table is None:
            table = self._tables[log] = _Table()
        async with table.lock:
            if not table.is_loaded:
                await self._load(cast("FolderLog", log), table)
            yield table.sequences

    async def _load(self, log: FolderLog, table: _Table) -> None:
        offset, producers = await self._io_thread.run(
            partial(named_producers.read, Path(log.folder))
        )
        if offset > log.log_end_offset:
            offset, producers = 0, []  # the log has lost what that was made of
        sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        sequences.restore(Known(*each) for each in producers)
        count = 0
        async for record in uncommitted(log, offset, self._io_thread.run):
            if isinstance(record, Unreadable):
                _log.warning(
                    "stepped over: folder=%s offset=%d reason=%s",
                    *(log.folder, record.offset, record.reason),
                )
                continue
            found = self._sequence_of(record.headers)
            if found is not None:
                producer_id, epoch, sequence = found
                run = Run(producer_id, epoch, sequence, sequence, 1)
                sequences.replay([run], record.timestamp)
            count += 1
            if count % NAMED_PRODUCERS_LOADED_PER_TURN == 0:
                await asyncio.sleep(0)
        table.sequences = sequences
        table.written_offset = offset
        table.is_loaded = True

    def forget_topic(self, name: str) -> None:
        """A topic was deleted."""
        for log in [log for log in self._tables if cast("FolderLog", log).topic == name]:
            del self._tables[log]

    async def cover(self, logs: Iterable[FolderLog]) -> None:
        """Write what is known of these logs' producers, those that have it written already aside.

        StorageError when a file cannot be written. A log that cannot be read is passed over: what
        is not known of it now is not known later either.
        """
        for log in logs:
            try:
                if log.is_in_service:
                    await self._cover(log)
            except (StorageError, FileNotFoundError):
                if log.is_in_service:
                    raise
            except CodecError as error:
                _log.warning("named producers not written: folder=%s error=%s", log.folder, error)

    async def _cover(self, log: FolderLog) -> None:
        async with self.of(log):
            pass  # it is loaded
        table = self._tables.get(log)
        if table is not None and table.written_offset < log.log_end_offset:
            await self._write(log, table)

    async def _write(self, log: FolderLog, table: _Table) -> None:
        async with table.lock:  # nothing is between its append and its replay
            table.sequences.forget_before(self._clock.wall_ms() - self._expiration_ms())
            offset = log.log_end_offset
            image = [StoredProducer(*each) for each in table.sequences.image()]
        if not await _synced(log, offset):
            raise StorageError(f"{log.folder}: its log failed before its producers were written")
        await self._io_thread.run(partial(named_producers.write, Path(log.folder), offset, image))
        table.written_offset = offset


async def _synced(log: Log, offset: int) -> bool:
    """Wait until the disk has all below the offset; False when the log failed before."""
    synced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def finish(is_synced: bool) -> None:
        if not synced.done():
            synced.set_result(is_synced)

    log.when_synced(offset, finish)
    return await synced
