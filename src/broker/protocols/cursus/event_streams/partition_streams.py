"""The streams of one partition that this broker leads: versions, and where events are.

    lookup ──> versions, recent, filing, filter of new keys ── the others ──> file, in the thread
    native append of a stream that is not in `versions` ──> lookup ──> versions ──> native append

An append that finds its version changes what is known in the same step, so it has that alone.
`tables` makes such an object for each leader epoch, and takes from it what goes to the file.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from broker._native.protocols.cursus.stream_heads import StreamHeads
from broker.core.logs.log import Log
from broker.core.scheduling.events import is_set_within
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.stream_limits import (
    STREAM_KEYS_READ_PER_STATEMENT,
    STREAM_OFFSETS_PER_STATEMENT,
    STREAMS_LOAD_WAIT_SECONDS,
    STREAMS_LOOKED_UP_PER_STATEMENT,
)
from broker.protocols.cursus.event_streams.file import (
    DamagedFileError,
    Events,
    Found,
    Snapshot,
    StreamFile,
)

if TYPE_CHECKING:
    from broker.protocols.cursus.event_streams.tables import EventStreams

NONE: Final[Events] = {}  # no events on their way to the file
_T = TypeVar("_T")
_SNAPSHOT_BYTES: Final = 400  # of a snapshot that is in no file yet, besides its key
_log = logging.getLogger(__name__)


class PartitionStreams:
    """The streams of one partition, led in one epoch."""

    __slots__ = (
        "_asked",
        "_has_read_keys",
        "_looking_up",
        "_owner",
        "filed",
        "filing",
        "filing_snapshots",
        "folder",
        "has_place",
        "heads",
        "log",
        "snapshots",
    )

    def __init__(self, owner: "EventStreams", log: Log, heads: StreamHeads) -> None:
        """Begin with everything in the file."""
        self._owner = owner
        self._asked: dict[bytes, asyncio.Future[int]] = {}  # lookups that wait for the thread
        self._has_read_keys = False  # or begun to
        self._looking_up: asyncio.Task[None] | None = None  # for native appends
        self.log = log
        self.folder = Path(log.folder)
        self.has_place = asyncio.Event()  # not while its log moves to another folder
        self.has_place.set()
        self.heads = heads
        self.filing: Events = NONE  # events on their way to the file
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
            filed = self.filed
            in_file = None
            if self._version_here(key) is None:
                in_file = await self._version_in_file(key)
            version = self._know(key, in_file, filed)
            if version is not None:
                return version

    def _know(self, key: bytes, in_file: int | None, filed: int) -> int | None:
        """Keep and return the version of a stream.

        None: it is not in memory, and what was found in the file, when that had been written
        `filed` times, may be of before events that are in the file by now.
        """
        version = self._version_here(key)
        if version is None:
            if in_file is None or filed != self.filed:
                return None
            version = in_file
            if version == 0 and not self._has_read_keys:
                self._has_read_keys = True
                self._owner.begin(self._read_keys())
        self.heads.know(key, version)
        return version

    def begin_lookups(self) -> None:
        """Look up what native appends wait for."""
        if self._looking_up is None or self._looking_up.done():
            self._looking_up = self._owner.begin(self._end_lookups())

    async def _end_lookups(self) -> None:
        """Know the streams that native appends wait for, and let these go on.

        Those that are not known go on in Python: they could not be read, or must wait longer.
        """
        heads = self.heads
        try:
            while True:
                lookups = heads.first_lookups(STREAMS_LOOKED_UP_PER_STATEMENT)
                keys = heads.take_foreseen() | dict.fromkeys(each.key for each in lookups)
                if not keys:
                    break
                if self.has_place.is_set():
                    with suppress(StorageError, RequestError):
                        await self._know_all(keys)
                heads.end_lookups(lookups)
                await asyncio.sleep(0)
        finally:
            heads.end_lookups(heads.first_lookups(sys.maxsize))  # cancelled, or failed

    async def _know_all(self, keys: Iterable[bytes]) -> None:
        """Keep the versions of streams; of those of which that is not sure, nothing."""
        filed = self.filed
        unknown = [key for key in keys if self._know(key, None, filed) is None]
        if unknown:
            versions = await self._in_file(partial(StreamFile.versions, keys=unknown))
            for key, version in zip(unknown, versions, strict=True):
                self._know(key, version, filed)

    def _version_here(self, key: bytes) -> int | None:
        version = self.heads.versions.get(key)
        if version is not None:
            return version
        events = self.heads.recent.get(key) or self.filing.get(key)
        if events is not None:
            return events[0] + len(events) - 1
        return 0 if self.heads.keys.is_new(key) else None

    async def _read_keys(self) -> None:
        """Read all keys, so that new ones are known to be new."""
        keys = self.heads.keys
        last = b""
        try:
            async with self._owner.reading_keys:
                while found := await self._in_file(
                    partial(StreamFile.keys, after=last, events_max=STREAM_KEYS_READ_PER_STATEMENT)
                ):
                    keys.add(found)
                    last = found[-1]
        except RequestError:
            return  # another leader, or another file
        except StorageError as error:  # new keys are looked up, as any others
            _log.warning("keys of streams not read: folder=%s error=%s", self.folder, error)
        else:
            keys.complete()

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

    def give_back(self, events: dict[bytes, list[int]], size: int) -> None:
        """Keep what was on its way to the file, and has not come there, for the next time."""
        self.heads.give_back(events, size)
        self.snapshots = self.filing_snapshots | self.snapshots

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
        # What may be in no file yet, now: it may get there meanwhile.
        later = [each[key] for each in (self.filing, self.heads.recent) if key in each]
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
        for events in later:
            place = first_version + len(offsets) - events[0]
            if place > 0:
                offsets += events[place : place + count - len(offsets)]
        if len(offsets) < count:
            missing = first_version + len(offsets)
            raise StorageError(f"{self.folder}: version {missing} of a stream is missing")
        return Found(first_version, offsets, newest)

    async def snapshot(self, key: bytes) -> Snapshot | None:
        """Return a stream's latest snapshot that can be read."""
        newest = self.snapshots.get(key) or self.filing_snapshots.get(key)
        if newest is None or newest.offset >= self.log.high_watermark:
            newest = await self._in_file(partial(StreamFile.snapshot, key=key))
        return newest

    def moved(self) -> None:
        """Look things up where the log is now."""
        self.folder = Path(self.log.folder)
        self.has_place.set()

    async def _in_file(self, work: Callable[[StreamFile], _T]) -> _T:
        if not await is_set_within(self.has_place, STREAMS_LOAD_WAIT_SECONDS):
            text = "the streams of the partition move to another directory"
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        if not self.is_present:  # another process may have the file now
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            found = await self._owner.in_file(self.folder, work)
        except DamagedFileError as error:
            self._owner.forget(self.log)  # it is made anew for the next request
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
        if not self.is_present:  # it may have been made anew meanwhile, and lack events
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found
