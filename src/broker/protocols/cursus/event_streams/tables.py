"""The streams of every partition with polylog.event.sourcing: DerivedState, followed and led.

    append ──> log, versions, recent ── behind it, once durable ──> file
    lookup ──> versions, recent, filing ── the others ──> file, in the thread  (`partition_streams`)

A partition that this broker begins to lead answers once its file covers the whole log. From then on
every append changes the table in the same step, so an append that finds its version has it alone.
A log that leads in another epoch, or again, is read anew from where its file ends: what was known
of records that are in no file yet may have been cut off meanwhile. A file covers only what is on
the disk of the log, and below its high watermark. Files of logs that follow are kept up to date.

While a log that leads is copied to another directory, its file is made there, too, from the log.
When the log begins to use the copy, both files are closed, and lookups wait; what is known in
memory stays. One that follows moves without a file, which is made when it leads.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from broker._native.protocols.cursus.stream_heads import StreamTables
from broker.core.logs.log import Log
from broker.core.logs.partition import acknowledgement, epoch_at, wait_synced
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.core.topics.topic import Topic
from broker.model.errors import CodecError, ErrorCode, RequestError, StorageError
from broker.model.stream_limits import (
    EVENTS_RECENT_BYTES_MAX,
    EVENTS_RECENT_MAX,
    STREAM_FILES_LOOK_SECONDS,
    STREAM_FILES_LOOKED_AT_PER_STEP,
    STREAM_FILES_WRITE_SECONDS,
    STREAM_FILTERS_BYTES_MAX,
    STREAM_MOVE_RECORDS_MAX,
    STREAM_REPLICAS_WAIT_MS,
    STREAM_VERSIONS_BYTES_MAX,
    STREAMS_LOAD_WAIT_SECONDS,
    STREAMS_ROOM_WAIT_SECONDS,
)
from broker.protocols.cursus.event_streams import loading
from broker.protocols.cursus.event_streams.file import (
    Events,
    Snapshot,
    StreamFile,
    StreamFiles,
)
from broker.protocols.cursus.event_streams.partition_streams import NONE, PartitionStreams

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class _Table:
    """A partition: what is known of it as a leader, and the work on its file."""

    __slots__ = ("file_end", "loading", "lock", "log", "streams", "topic")

    def __init__(self, topic: Topic, log: Log) -> None:
        self.topic = topic
        self.log = log
        self.lock = asyncio.Lock()  # of whoever loads or writes
        self.streams: PartitionStreams | None = None
        self.loading: asyncio.Future[None] | None = None
        self.file_end = -1  # up to where its file covers the log; -1: not known


class EventStreams(Service):
    """The streams of all partitions: a DerivedState, and a service that writes behind appends."""

    name = "event streams"

    def __init__(self) -> None:
        """Begin without any; the first use of a partition makes its table."""
        self.native = StreamTables(
            EVENTS_RECENT_BYTES_MAX, STREAM_VERSIONS_BYTES_MAX, STREAM_FILTERS_BYTES_MAX
        )
        self.native.when_unknown = self._begin_lookups
        self._tables: dict[Log, _Table] = {}
        self._thread = IoThread("broker-streams")
        self._files = StreamFiles()
        self._tasks = Tasks()
        self.reading_keys = asyncio.Lock()  # of one partition at a time: few files can be open
        self._making_room: asyncio.Future[None] | None = None  # for all appends that wait
        self._is_used = asyncio.Event()

    # ---- for requests ----------------------------------------------------------------------------

    async def of(self, topic: Topic, log: Log) -> PartitionStreams:
        """Return the streams of a partition that this broker leads.

        Raises RequestError if they are still being loaded, or cannot be.
        """
        table = self._table(topic, log)
        streams = table.streams
        if streams is not None and streams.is_present:
            return streams
        if table.loading is None or table.loading.done():
            table.loading = self._tasks.begin(self._loaded(table))
        await asyncio.wait((table.loading,), timeout=STREAMS_LOAD_WAIT_SECONDS)
        streams = table.streams
        if streams is None or not streams.is_present:  # it goes on, or has failed and is tried anew
            text = "the streams of the partition are being loaded"
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        return streams

    def _begin_lookups(self, log: "PartitionLog") -> None:
        streams = self._tables[log].streams
        assert streams is not None  # the native side has them
        streams.begin_lookups()

    async def make_room(self) -> None:
        """Wait until there is memory for another event that is in no file yet.

        Raises RequestError if that takes too long: replicas may be late, or the disk.
        """
        loop = asyncio.get_running_loop()
        due = loop.time() + STREAMS_ROOM_WAIT_SECONDS
        while self.native.recent_bytes >= self.native.recent_bytes_max:
            if loop.time() >= due:
                text = "events wait for the files of their streams, try again later"
                raise RequestError(ErrorCode.REQUEST_TIMED_OUT, text)
            if self._making_room is None or self._making_room.done():
                self._making_room = self._tasks.begin(self._write_largest())
            await asyncio.wait((self._making_room,), timeout=due - loop.time())

    def forget(self, log: Log) -> None:
        """Forget what is known of a partition: its next use loads it."""
        self.native.end(cast("PartitionLog", log))

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that nobody waits for."""
        return self._tasks.begin(work)

    async def in_file(self, folder: Path, work: Callable[[StreamFile], _T]) -> _T:
        """Run work with the file of a folder, in the thread; raises StorageError."""
        return await self._thread.run(partial(self._files.run, folder, work))

    # ---- DerivedState ----------------------------------------------------------------------------

    def is_kept_for(self, topic: Topic) -> bool:
        """Whether the topic's records are events."""
        return topic.config.has_streams

    async def cover(self, places: Iterable[tuple[Topic, Log]]) -> None:
        """Make the files of these logs cover what is durable; raises StorageError."""
        for topic, log in places:
            await self._cover(self._table(topic, log))

    def lost(self, name: str, partition: int) -> None:
        """Close the file of a partition that this broker leads no more."""
        for table in [each for each in self._tables.values() if each.topic.name == name]:
            if table.log.partition == partition:
                self._drop(table)

    def forget_topic(self, name: str) -> None:
        """Drop the tables of a deleted topic."""
        for table in [each for each in self._tables.values() if each.topic.name == name]:
            self._drop(table)

    # ---- MovingState -----------------------------------------------------------------------------

    async def copy(
        self, topic: Topic, log: Log, folder: Path, is_wanted: Callable[[], bool]
    ) -> None:
        """Make the file of a log in the folder of its copy, all but its end."""
        table = self._table(topic, log)
        end = -STREAM_MOVE_RECORDS_MAX  # a file is made for an empty log, too
        try:
            while (
                is_wanted()
                and not cast("PartitionLog", log).is_follower
                and log.high_watermark - end >= STREAM_MOVE_RECORDS_MAX
            ):
                end = await self._catch_up_copy(table, folder, is_wanted)
        finally:
            await self._close(folder)

    @asynccontextmanager
    async def moving(self, topic: Topic, log: Log, folder: Path) -> AsyncIterator[None]:
        """Let lookups wait, and nobody write, while a log begins to use its copy in a folder."""
        table = self._table(topic, log)
        before = log.folder
        async with table.lock:
            try:
                end = await self._catch_up_copy(table, folder, lambda: True)
            finally:
                await self._close(folder)
            streams = table.streams
            try:
                if streams is not None:
                    streams.has_place.clear()
                await self._close(Path(before))  # after the lookups that have begun
                yield
            finally:
                if log.folder != before:
                    table.file_end = end
                if streams is not None:
                    streams.moved()

    # ---- the service -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Write files behind the appends, and follow leaders."""
        loop = asyncio.get_running_loop()
        followed = loop.time()
        while True:
            await self._is_used.wait()
            await asyncio.sleep(STREAM_FILES_LOOK_SECONDS)
            is_due = loop.time() - followed >= STREAM_FILES_WRITE_SECONDS
            if is_due:
                followed = loop.time()
            tables = list(self._tables.values())
            async for table in in_steps(tables, STREAM_FILES_LOOKED_AT_PER_STEP):
                if _is_full(table) or (is_due and _is_behind(table)):
                    self._tasks.begin(self._cover_later(table))

    async def stop(self) -> None:
        """Write all files, so that the next start has nothing to read."""
        self.native.when_unknown = None
        await self._tasks.stop()
        tables = [each for each in self._tables.values() if each.streams is not None]
        await asyncio.gather(*map(self._cover_later, tables))  # they wait for replicas at once
        await self._thread.run(self._files.close_all)
        self._thread.stop()

    # ---- loading and writing ---------------------------------------------------------------------

    async def _write_largest(self) -> None:
        """Write the file for which there are most events; look again later if that is not done."""
        largest = max(self._tables.values(), key=_recent_bytes, default=None)
        before = self.native.recent_bytes
        if largest is not None and not largest.lock.locked():
            await self._cover_later(largest)
        if self.native.recent_bytes >= before:
            await asyncio.sleep(STREAM_FILES_LOOK_SECONDS)

    def _table(self, topic: Topic, log: Log) -> _Table:
        table = self._tables.get(log)
        if table is None:
            table = self._tables[log] = _Table(topic, log)
            self._is_used.set()
        return table

    def _has(self, table: _Table) -> bool:
        return self._tables.get(table.log) is table

    def _drop(self, table: _Table) -> None:
        del self._tables[table.log]
        self.native.end(cast("PartitionLog", table.log))
        table.streams = None
        self._tasks.begin(self._close(Path(table.log.folder)))
        if not self._tables:
            self._is_used.clear()

    async def _loaded(self, table: _Table) -> None:
        try:
            async with table.lock:
                if self._has(table):
                    await self._lead(table)
        except (StorageError, CodecError) as error:
            _log.warning("streams not loaded: folder=%s error=%s", table.log.folder, error)

    async def _lead(self, table: _Table) -> None:
        """Begin to answer for a partition, unless that is impossible just now."""
        streams, log = table.streams, table.log
        if streams is not None and streams.is_present:
            return
        table.streams = None
        self.native.end(cast("PartitionLog", log))
        epoch = log.known_epoch
        end = -1
        while end < log.log_end_offset:
            end = log.log_end_offset
            if not await _is_durable(log, end):
                return
            table.file_end = await self._catch_up(table, Path(log.folder), end)
        if log.is_follower or log.known_epoch != epoch or not self._has(table):
            return
        heads = self.native.begin(cast("PartitionLog", log), epoch)
        table.streams = PartitionStreams(self, log, heads)

    async def _cover(self, table: _Table) -> None:
        """Make a file cover what is durable; what cannot be awaited is left to the next time."""
        log = cast("PartitionLog", table.log)
        async with table.lock:
            if not self._has(table):
                return
            if not log.is_in_service:
                if not log.is_loading:
                    self._drop(table)
            elif log.is_follower:
                if table.streams is not None:
                    table.streams = None
                    self.native.end(log)
                end = log.high_watermark
                if await wait_synced(log, end):
                    table.file_end = await self._catch_up(table, Path(log.folder), end)
            elif table.streams is None or not table.streams.is_present:
                if log.high_watermark >= log.log_end_offset:
                    await self._lead(table)
            else:
                await self._write(table)

    async def _cover_later(self, table: _Table) -> None:
        try:
            await self._cover(table)
        except (StorageError, CodecError) as error:
            _log.warning("streams not written: folder=%s error=%s", table.log.folder, error)

    async def _catch_up_copy(
        self, table: _Table, folder: Path, is_wanted: Callable[[], bool]
    ) -> int:
        """Have the file in the folder of a log's copy cover what is durable; return its end.

        That is -1, and nothing is done, if the log follows.
        """
        log = cast("PartitionLog", table.log)
        end = log.high_watermark
        if not await wait_synced(log, end):
            if log.is_follower:
                return -1
            if log.durable_end < end:  # else too few replicas are in sync, which it may move with
                raise StorageError(f"{log.folder}: it failed before its streams were copied")
        return await self._catch_up(table, folder, end, is_wanted)

    async def _catch_up(
        self,
        table: _Table,
        folder: Path,
        end: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> int:
        """Read the log from where a file ends, up to an end below which all is durable.

        Returns up to where the file covers the log now.
        """
        log = table.log
        topic_id = table.topic.topic_id.hex()
        covered = await self.in_file(folder, StreamFile.covered)
        start = covered.offset
        if (
            covered.topic_id != topic_id
            or start > log.log_end_offset
            or (start > 0 and covered.epoch != epoch_at(log, start - 1))
        ):
            if start > 0:
                _log.warning("streams of another log: folder=%s", folder)
            await self._thread.run(partial(self._files.begin_anew, folder, topic_id))
            start = 0
        if start < end:
            async with aclosing(loading.parts(log, start, end)) as parts:
                async for part in parts:
                    await self._file(table, folder, part.events, part.snapshots, part.end)
                    start = part.end
                    if not is_wanted():
                        break
        return start

    async def _write(self, table: _Table) -> None:
        """Write what is recent to the file, once it is durable; nothing if replicas are late."""
        streams = table.streams
        if streams is None or not (streams.heads.recent_count or streams.snapshots):
            return
        log, heads = table.log, streams.heads
        if not await _is_durable(log, log.log_end_offset):
            return
        end = log.log_end_offset  # everything below it is in `recent`, or in the file
        taken, size = heads.take_recent()
        streams.filing = taken
        streams.filing_snapshots, streams.snapshots = streams.snapshots, {}
        try:
            is_durable = await _is_durable(log, end)
            if not streams.is_present or not log.is_led or log.is_offline:
                # What is in no file yet is read from the log when it is led again: there may be
                # other records at these offsets by now.
                raise StorageError(f"{log.folder}: it failed before its streams were written")
            if is_durable:
                folder = Path(log.folder)
                await self._file(table, folder, streams.filing, streams.filing_snapshots, end)
                streams.filed += 1
                table.file_end = end
            else:
                streams.give_back(taken, size)
                size = 0
        except BaseException:
            table.streams = None
            self.native.end(cast("PartitionLog", log))
            raise
        finally:
            streams.filing, streams.filing_snapshots = NONE, {}
            self.native.release(size)

    async def _file(
        self,
        table: _Table,
        folder: Path,
        events: Events,
        snapshots: dict[bytes, Snapshot],
        end: int,
    ) -> None:
        if not self._has(table):  # another process may have the file now
            raise StorageError(f"{table.log.folder}: another broker leads it by now")
        epoch = epoch_at(table.log, end - 1) if end > 0 else -1
        await self.in_file(folder, lambda file: file.write(events, snapshots, end, epoch))

    async def _close(self, folder: Path) -> None:
        """Close the file of a folder, once whoever asked before has been served."""
        await self._thread.run(partial(self._files.close, folder))


def _recent_bytes(table: _Table) -> int:
    return 0 if table.streams is None else table.streams.heads.recent_bytes


def _is_behind(table: _Table) -> bool:
    """Whether a file does not cover all that is durable, as far as that is known."""
    return not table.lock.locked() and table.file_end < table.log.high_watermark


def _is_full(table: _Table) -> bool:
    streams = table.streams
    if streams is None or table.lock.locked():
        return False
    return max(streams.heads.recent_count, len(streams.snapshots)) >= EVENTS_RECENT_MAX


async def _is_durable(log: Log, end: int) -> bool:
    """Wait until all below an offset is on the disk of this log, and below its high watermark."""
    if log.high_watermark < end and await acknowledgement(log, end, STREAM_REPLICAS_WAIT_MS):
        return False
    return await wait_synced(log, end)
