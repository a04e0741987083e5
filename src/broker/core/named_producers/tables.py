"""The named producers of every partition that asks for them: loaded, and kept over a restart.

A table is made when somebody first asks for it: from the checkpoint in the partition's folder, and
the records behind it. Records that came while the topic did not ask for it are read when it does
again. It is written when it has changed: once in a while, and before records that it was made of
are taken away. A checkpoint is never ahead of what the disk has of the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, cast

from broker.core.io_thread import IoThread
from broker.core.log import Log
from broker.core.named_producers import loading
from broker.core.named_producers.loading import SequenceHeaders
from broker.core.named_producers.sequences import ProducerCheckpoint, Sequences
from broker.core.partition import wait_durable
from broker.core.reading import RunInThread
from broker.core.topic import Topic
from broker.model.clock import Clock
from broker.model.errors import CodecError, StorageError
from broker.model.limits import PRODUCER_IDS_PER_PARTITION_MAX
from broker.storage import named_producers
from broker.storage.named_producers import StoredProducer

_NOT_LOADED: Final = -1
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


class _Table:
    """One partition's."""

    __slots__ = ("config", "lock", "read_end", "sequences", "writing", "written_offset")

    def __init__(self) -> None:
        self.sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        self.lock = asyncio.Lock()
        self.writing = asyncio.Lock()  # no older one is written behind a newer one
        self.config: object = None  # its topic's, when it was up to date
        self.read_end = _NOT_LOADED  # what is below is known
        self.written_offset = 0


class NamedProducers:
    """The tables of all partitions."""

    __slots__ = ("_clock", "_expiration_ms", "_headers", "_io_thread", "_run_in_thread", "_tables")

    def __init__(
        self,
        clock: Clock,
        io_thread: IoThread,
        expiration_ms: Callable[[], int],
        headers: SequenceHeaders,
        run_in_thread: RunInThread,
    ) -> None:
        """Know the words in which records say who wrote them."""
        self._clock = clock
        self._io_thread = io_thread
        self._expiration_ms = expiration_ms
        self._headers = headers
        self._run_in_thread = run_in_thread
        self._tables: dict[Log, _Table] = {}

    @asynccontextmanager
    async def of(self, topic: Topic, log: Log) -> AsyncIterator[Sequences]:
        """What is known of a partition's producers, for one who appends to it; others wait.

        The topic asks for it: while it did not, records came that nobody has noted. So what was
        appended is read whenever its configuration is another than the last time.

        StorageError when it cannot be found out, CodecError when the log is damaged.
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
        if table.read_end == _NOT_LOADED:
            await self._load(log, table)
        elif table.config is not config:
            table.read_end = await self._read(log, table.sequences, table.read_end)
        table.config = config

    async def _load(self, log: Log, table: _Table) -> None:
        folder = Path(log.folder)
        offset, producers = await self._io_thread.run(partial(named_producers.read, folder))
        if offset > log.log_end_offset:
            offset, producers = 0, []  # the log has lost what that was made of
        sequences = Sequences(PRODUCER_IDS_PER_PARTITION_MAX)
        sequences.restore(ProducerCheckpoint(*each) for each in producers)
        table.read_end = await self._read(log, sequences, offset)
        table.sequences = sequences
        table.written_offset = offset

    async def _read(self, log: Log, sequences: Sequences, start: int) -> int:
        """Learn from all that the log has from an offset on; where it ends."""
        if not await wait_durable(log, log.log_end_offset):
            raise StorageError(f"{log.folder}: its log failed before its producers were read")
        return await loading.read(log, sequences, start, self._headers, self._run_in_thread)

    def forget_topic(self, name: str) -> None:
        """A topic was deleted."""
        for log in [log for log in self._tables if cast("FolderLog", log).topic == name]:
            del self._tables[log]

    async def cover(self, places: Iterable[tuple[Topic, FolderLog]]) -> None:
        """Write what is known of these logs' producers, those that have it written already aside.

        StorageError when a file cannot be written. A log that cannot be read is passed over: what
        is not known of it now is not known later either.
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
        async with table.writing:
            async with table.lock:  # nothing is between its append and its replay
                await self._catch_up(topic, log, table)
                offset = log.log_end_offset
                if table.written_offset >= offset:
                    return
                table.sequences.forget_before(self._clock.aged_ms() - self._expiration_ms())
                image = [StoredProducer(*each) for each in table.sequences.image()]
            if not await _synced(log, offset):
                text = f"{log.folder}: its log failed before its producers were written"
                raise StorageError(text)
            write = partial(named_producers.write, Path(log.folder), offset, image)
            await self._io_thread.run(write)
            table.written_offset = offset


async def _synced(log: Log, offset: int) -> bool:
    """Wait until the disk has all below the offset; False when the log failed before."""
    synced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def finish(is_synced: bool) -> None:
        if not synced.done():
            synced.set_result(is_synced)

    log.when_synced(offset, finish)
    return await synced
