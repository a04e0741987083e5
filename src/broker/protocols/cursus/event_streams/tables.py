"""The streams of every partition with polylog.event.sourcing: DerivedState, followed and led.

    append ──> log, versions, recent ── behind it, once durable ──> file
    lookup ──> versions, recent, filing ── what is not there ──> file, in the thread

A partition that this broker begins to lead answers once its file covers the whole log. From then on
every append changes the table in the same step, so an append that finds its version has it alone.
A log that leads in another epoch, or again, is read anew from where its file ends: what was known
of records that are in no file yet may have been cut off meanwhile. A file covers only what is on
the disk of the log, and below its high watermark. Files of logs that follow are kept up to date.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from broker._native.protocols.cursus.stream_heads import StreamHeads, StreamTables
from broker.core.logs.log import Log
from broker.core.logs.partition import acknowledgement, epoch_at, wait_synced
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.tasks import Tasks
from broker.core.service import Service
from broker.core.topics.topic import Topic
from broker.model.errors import CodecError, ErrorCode, RequestError, StorageError
from broker.model.stream_limits import (
    EVENTS_RECENT_BYTES_MAX,
    EVENTS_RECENT_MAX,
    STREAM_FILES_LOOK_SECONDS,
    STREAM_FILES_WRITE_SECONDS,
    STREAM_OFFSETS_PER_STATEMENT,
    STREAM_REPLICAS_WAIT_MS,
    STREAM_VERSIONS_BYTES_MAX,
    STREAM_VERSIONS_FORGOTTEN,
    STREAMS_LOAD_WAIT_SECONDS,
    STREAMS_LOOKED_UP_PER_STATEMENT,
)
from broker.protocols.cursus.event_streams import loading
from broker.protocols.cursus.event_streams.file import (
    DamagedFileError,
    Events,
    Found,
    Snapshot,
    StreamFile,
    StreamFiles,
)

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

_T = TypeVar("_T")
_NONE: Final[Events] = {}
_SNAPSHOT_BYTES: Final = 400  # of a snapshot that is in no file yet, besides its key
_log = logging.getLogger(__name__)


class Streams:
    """The streams of one partition, led in one epoch."""

    __slots__ = (
        "_asked",
        "_owner",
        "filed",
        "filing",
        "filing_snapshots",
        "folder",
        "heads",
        "log",
        "snapshots",
    )

    def __init__(self, owner: "EventStreams", log: Log, heads: StreamHeads) -> None:
        """Begin with everything in the file."""
        self._owner = owner
        self._asked: dict[bytes, asyncio.Future[int]] = {}  # lookups that wait for the thread
        self.log = log
        self.folder = Path(log.folder)
        self.heads = heads
        self.filing: Events = _NONE  # events on their way to the file
        self.filing_snapshots: dict[bytes, Snapshot] = {}
        self.snapshots: dict[bytes, Snapshot] = {}  # that are in no file yet
        self.filed = 0  # how often the file was written

    @property
    def is_present(self) -> bool:
        """Whether it is of the epoch in which the log leads now."""
        return self.heads.epoch == self.log.known_epoch and not self.log.is_follower

    async def version(self, key: bytes) -> int:
        """Return the version of a stream, 0 if it has no events: durable or not.

        Nothing has happened to the stream when the caller goes on.
        """
        while True:
            version = self._version_here(key)
            if version is None:
                filed = self.filed
                version = await self._version_in_file(key)
                now = self._version_here(key)
                if now is None and filed != self.filed:
                    continue  # it may have got events that are in the file already
                version = version if now is None else now
            self._owner.know(self.heads, key, version)
            return version

    def _version_here(self, key: bytes) -> int | None:
        version = self.heads.versions.get(key)
        if version is not None:
            return version
        events = self.heads.recent.get(key) or self.filing.get(key)
        return None if events is None else events[0] + len(events) - 1

    async def _version_in_file(self, key: bytes) -> int:
        answer = self._asked.get(key)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = self._asked[key] = loop.create_future()
            if len(self._asked) == 1:
                self._owner.begin(self._look_up())
        return await asyncio.shield(answer)

    async def _look_up(self) -> None:
        """Look up all versions that are asked for, together."""
        await asyncio.sleep(0)
        while self._asked:
            asked = list(islice(self._asked.items(), STREAMS_LOOKED_UP_PER_STATEMENT))
            keys = [key for key, _ in asked]
            try:
                versions = await self._in_file(partial(StreamFile.versions, keys=keys))
            except (StorageError, RequestError) as error:
                for key, answer in asked:
                    del self._asked[key]
                    answer.set_exception(error)
                    answer.exception()  # retrieved, so that asyncio does not warn
                continue
            for (key, answer), version in zip(asked, versions, strict=True):
                del self._asked[key]
                answer.set_result(version)

    def appended(self, key: bytes, version: int, offset: int) -> None:
        """Note an event; nothing was awaited since its append, and since `version` before it."""
        self.heads.append(key, version, offset)

    def saved(self, key: bytes, snapshot: Snapshot) -> None:
        """Note a snapshot."""
        if key not in self.snapshots:
            self.heads.hold(_SNAPSHOT_BYTES + len(key))
        self.snapshots[key] = snapshot

    def end_of(self, key: bytes) -> int:
        """Return the offset after a stream's last event; 0 if that is in the file."""
        events = self.heads.recent.get(key) or self.filing.get(key)
        return 0 if events is None else events[-1] + 1

    def durable_version(self, key: bytes, version: int) -> int:
        """Return up to which version a stream can be read that has another one now."""
        end = self.log.high_watermark
        for events in (self.heads.recent.get(key), self.filing.get(key)):
            if events is None:
                continue
            for offset in reversed(events[1:]):
                if offset < end:
                    return version
                version -= 1
        return version

    async def find(self, key: bytes, first_version: int, count_max: int) -> Found:
        """Return where the readable events of a stream are, from a version on, and its snapshot.

        A snapshot that is not older than the version counts: the events after it are returned. At
        most `count_max` events are, and one more if there are more. Raises StorageError if one is
        missing.
        """
        version = await self.version(key)
        readable = self.durable_version(key, version)
        end = self.log.high_watermark
        later: list[tuple[int, int]] = []  # versions and offsets of what may be in no file yet
        for events in (self.filing.get(key), self.heads.recent.get(key)):
            if events is not None:
                numbered = enumerate(events[1:], events[0] + 1)
                later += [(each, offset) for each, offset in numbered if offset < end]
        newest = await self.snapshot(key)
        if newest is not None and newest.version >= first_version:
            first_version = newest.version + 1
        else:
            newest = None
        count = min(max(readable - first_version + 1, 0), count_max + 1)
        offsets: list[int] = []
        while len(offsets) < count:
            page = await self._in_file(
                partial(
                    StreamFile.offsets,
                    key=key,
                    first_version=first_version + len(offsets),
                    count_max=min(count - len(offsets), STREAM_OFFSETS_PER_STATEMENT),
                )
            )
            if not page:
                break
            offsets += page
        next_version = first_version + len(offsets)
        for each, offset in later:
            if each == next_version and len(offsets) < count:
                offsets.append(offset)
                next_version += 1
        if len(offsets) < count:
            raise StorageError(f"{self.folder}: version {next_version} of a stream is missing")
        return Found(first_version, offsets, newest)

    async def snapshot(self, key: bytes) -> Snapshot | None:
        """Return a stream's latest snapshot that can be read."""
        newest = self.snapshots.get(key) or self.filing_snapshots.get(key)
        if newest is None or newest.offset >= self.log.high_watermark:
            newest = await self._in_file(partial(StreamFile.snapshot, key=key))
        return newest

    async def _in_file(self, work: Callable[[StreamFile], _T]) -> _T:
        try:
            return await self._owner.in_file(self.folder, work)
        except DamagedFileError as error:
            self._owner.forget(self.log)  # it is made anew for the next request
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error


class _Table:
    """A partition: what is known of it as a leader, and the work on its file."""

    __slots__ = ("file_end", "loading", "lock", "log", "streams", "topic")

    def __init__(self, topic: Topic, log: Log) -> None:
        self.topic = topic
        self.log = log
        self.lock = asyncio.Lock()  # of whoever loads or writes
        self.streams: Streams | None = None
        self.loading: asyncio.Future[None] | None = None
        self.file_end = -1  # up to where its file covers the log; -1: not known


class EventStreams(Service):
    """The streams of all partitions: a DerivedState, and a service that writes behind appends."""

    name = "event streams"

    def __init__(self) -> None:
        """Begin without any; the first use of a partition makes its table."""
        self.native = StreamTables(EVENTS_RECENT_BYTES_MAX)
        self._tables: dict[Log, _Table] = {}
        self._thread = IoThread("broker-streams")
        self._files = StreamFiles()
        self._tasks = Tasks()
        self._is_used = asyncio.Event()

    # ---- for requests ----------------------------------------------------------------------------

    async def of(self, topic: Topic, log: Log) -> Streams:
        """Return the streams of a partition that this broker leads.

        Raises RequestError if they are still being loaded, or cannot be.
        """
        table = self._table(topic, log)
        streams = table.streams
        if streams is not None and streams.is_present:
            return streams
        if table.loading is None or table.loading.done():
            table.loading = asyncio.ensure_future(self._loaded(table))
        await asyncio.wait((table.loading,), timeout=STREAMS_LOAD_WAIT_SECONDS)
        streams = table.streams
        if streams is None or not streams.is_present:  # it goes on, or has failed and is tried anew
            text = "the streams of the partition are being loaded"
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        return streams

    async def make_room(self) -> None:
        """Wait until there is memory for another event that is in no file yet."""
        while self.native.recent_bytes >= self.native.recent_bytes_max:
            tables = [each for each in self._tables.values() if each.streams is not None]
            largest = max(tables, key=_recent_bytes, default=None)
            if largest is None or _recent_bytes(largest) == 0:
                await asyncio.sleep(STREAM_FILES_LOOK_SECONDS)  # they are being written
                continue
            try:
                async with largest.lock:
                    await self._write(largest)
            except StorageError as error:
                raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def know(self, heads: StreamHeads, key: bytes, version: int) -> None:
        """Keep the version of a stream for its next append."""
        heads.know(key, version)
        while self.native.known_bytes > STREAM_VERSIONS_BYTES_MAX:
            largest = self.native.largest()
            if largest is not None:
                largest.forget_versions(STREAM_VERSIONS_FORGOTTEN)

    def forget(self, log: Log) -> None:
        """Forget what is known of a partition: its next use loads it."""
        self.native.end(cast("PartitionLog", log))

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that nobody waits for."""
        self._tasks.begin(work)

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
            for table in self._tables.values():
                if _is_full(table) or (is_due and _is_behind(table)):
                    self._tasks.begin(self._cover_later(table))

    async def stop(self) -> None:
        """Write all files, so that the next start has nothing to read."""
        await self._tasks.stop()
        for table in list(self._tables.values()):
            if table.streams is not None:
                await self._cover_later(table)
        await self._thread.run(self._files.close_all)
        self._thread.stop()

    # ---- loading and writing ---------------------------------------------------------------------

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
        self._tasks.begin(self._thread.run(partial(self._files.close, Path(table.log.folder))))
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
            await self._catch_up(table, end)
        if log.is_follower or log.known_epoch != epoch or not self._has(table):
            return
        heads = self.native.begin(cast("PartitionLog", log), epoch)
        table.streams = Streams(self, log, heads)

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
                    await self._catch_up(table, end)
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

    async def _catch_up(self, table: _Table, end: int) -> None:
        """Read the log from where its file ends, up to an end below which all is durable."""
        log, folder = table.log, Path(table.log.folder)
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
            async for part in loading.parts(log, start, end):
                await self._file(table, part.events, part.snapshots, part.end)
        table.file_end = max(start, end)

    async def _write(self, table: _Table) -> None:
        """Write what is recent to the file, once it is durable."""
        streams = table.streams
        if streams is None or not (streams.heads.recent_count or streams.snapshots):
            return
        log, heads = table.log, streams.heads
        if not await _is_durable(log, log.log_end_offset):
            return  # replicas lag: it is written with the next ones
        end = log.log_end_offset  # everything below it is in `recent`, or in the file
        streams.filing, size = heads.take_recent()
        streams.filing_snapshots, streams.snapshots = streams.snapshots, {}
        try:
            while not await _is_durable(log, end) or not streams.is_present:
                if not streams.is_present or not log.is_led or log.is_offline:
                    # What is in no file yet is read from the log when it is led again: there may
                    # be other records at these offsets by now.
                    raise StorageError(f"{log.folder}: it failed before its streams were written")
            await self._file(table, streams.filing, streams.filing_snapshots, end)
            streams.filed += 1
            table.file_end = end
        except BaseException:
            table.streams = None
            self.native.end(cast("PartitionLog", log))
            raise
        finally:
            streams.filing, streams.filing_snapshots = _NONE, {}
            self.native.release(size)

    async def _file(
        self, table: _Table, events: Events, snapshots: dict[bytes, Snapshot], end: int
    ) -> None:
        if not self._has(table):  # another process may have the file now
            raise StorageError(f"{table.log.folder}: another broker leads it by now")
        epoch = epoch_at(table.log, end - 1) if end > 0 else -1
        await self.in_file(
            Path(table.log.folder), lambda file: file.write(events, snapshots, end, epoch)
        )


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
