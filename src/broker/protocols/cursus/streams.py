"""The open streams: their readers, and how they end.

    what happens             the stream                           the connection, after it
    STREAM                   opens; frames follow
    COMPRESSED               waits for the decompressed batch
    TOO_LARGE, UNREADABLE    skips the records
    OUT_OF_RANGE             CLOSE offset_out_of_range            is closed
    REMOVED, STOPPED         CLOSE removed, CLOSE stopped         is closed
    OFFLINE                  CLOSE error                          serves further requests
    another STREAM           CLOSE replaced, if it has its key    is closed
    the group rebalances     ERROR, if its member is affected     serves further requests
    CLOSED                   is forgotten: it or its connection has ended

The words in capitals are events of the native stream (StreamEvent). A positional stream, whose form
has no CLOSE frame, ends without one, and its connection is closed. Records that cannot be read are
skipped, because a stream that stopped there could never continue; its reader sees a gap in the
offsets, and a log line names them.
"""

import asyncio
import logging
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from broker._native.protocols.cursus.stream import CursusStream, StreamEvent
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.broker import Broker
from broker.core.groups.commands.assigned import AssignedCall
from broker.core.logs.log import Log
from broker.core.logs.reading import UNREADABLE, decompress_records
from broker.core.scheduling.steps import StepBudget, in_steps
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import (
    CURSUS_KEEPALIVE_MS,
    CURSUS_MEMBERS_CHECKED_PER_STEP,
    CURSUS_MEMBERS_CHECKED_SECONDS,
    CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.protocols.base import Answer
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import OutOfRangeError, RefusedError, checked
from broker.protocols.cursus.grammar import encoded
from broker.protocols.cursus.reads import LATEST, Read

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog
    from broker.core.groups.coordinator import GroupCoordinator
    from broker.core.links import Links, Upstreams
    from broker.core.security.authorizer import Authorizer

_log = logging.getLogger(__name__)
# The reason in the CLOSE frame, and whether the connection is closed.
_ENDS: Final = {
    StreamEvent.REMOVED: ("removed", True),
    StreamEvent.STOPPED: ("stopped", True),
    StreamEvent.OFFLINE: ("error", False),
}
_Key = tuple[str, int, str]


class Reader(NamedTuple):
    """The client that opened a stream."""

    broker: Broker
    connection: ConnectionState
    read: Read
    call: AssignedCall | None  # checks its membership; None: it is not a member
    # In a cluster: does the same wherever the coordinator is, over these links.
    check: Callable[["Upstreams | None"], Awaitable[None]] | None = None
    # In a cluster: returns the other broker that is the coordinator, None if it is this one.
    # Raises RequestError if there is none now.
    coordinator: Callable[[], int | None] | None = None
    # Returns whether the client may still read the topic; None: there are no ACLs.
    may_read: Callable[[], bool] | None = None

    @property
    def key(self) -> _Key | None:
        """A new stream replaces one with the same key."""
        read = self.read
        return (read.name, read.partition, read.group) if read.group else None


def _start(read: Read, log: Log, committed: int | None) -> int:
    """Return the offset at which a stream starts.

    That is the higher of the requested and the group's committed offset, as for CONSUME. If there
    is neither, autoOffsetReset decides: the log start offset by default.
    """
    if read.offset == LATEST:
        return read.end_of(log)
    if read.offset is None and committed is None:
        if read.reset == "latest":
            return read.end_of(log)
        return 0 if read.reset == "error" else log.log_start_offset
    return max(read.offset or 0, committed or 0)


def _close_frame(reason: str, offset: int, fields: str = "") -> bytes:
    """Return the frame that ends a stream; clients continue at its offset."""
    return encoded(f"STREAM_CONTROL type=CLOSE reason={reason} offset={offset} {fields}".rstrip())


class Streams:
    """All open streams, of which a connection has at most one."""

    __slots__ = (
        "_authorizer",
        "_by_group",
        "_by_key",
        "_changed",
        "_checking",
        "_decompressed",
        "_decompressing",
        "_groups",
        "_is_permission_checked",
        "_readers",
        "_tasks",
        "_upstreams",
    )

    def __init__(self) -> None:
        """Start without streams."""
        self._readers: dict[CursusStream, Reader] = {}
        self._by_key: dict[_Key, CursusStream] = {}
        self._by_group: dict[str, set[CursusStream]] = {}  # streams of members
        self._changed: set[str] = set()  # groups whose members have to be checked
        self._groups: GroupCoordinator | None = None  # the one whose rebalances are watched
        self._tasks: set[Task[None]] = set()
        self._checking: Task[None] | None = None  # of members, in a cluster
        self._authorizer: Authorizer | None = None  # the one whose changes are watched
        self._is_permission_checked = True  # False: a check is on its way
        self._upstreams: Upstreams | None = None  # to their coordinators
        self._decompressing: dict[CursusStream, Task[None]] = {}  # the latest task of each
        # Streams that may hold decompressed records, in the order in which they received them.
        self._decompressed: dict[CursusStream, None] = {}

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._readers)

    def open_stream(self, reader: Reader, log: Log, committed: int | None) -> Answer:
        """Open a stream; close it at once if it starts at an offset that is not in the log.

        Raises RefusedError in that case for the positional form, which has no CLOSE frame.
        """
        read = reader.read
        offset = _start(read, log, committed)
        if offset < log.log_start_offset:
            error = OutOfRangeError(log, offset)
            if read.is_positional:
                raise error
            frame = _close_frame("offset_out_of_range", log.log_start_offset, error.rest)
            return Answer(frame, is_last=True)
        stream = CursusStream(
            cast("PartitionLog", log),
            offset,
            encoded(read.name),
            is_original=read.is_positional,
            is_committed=read.is_committed,
            records_max=read.records_max,
            keepalive_ms=0 if read.is_positional else CURSUS_KEEPALIVE_MS,
            notify=self.on_event,
        )
        self.add(stream, reader)
        return Answer(None, stream=stream)

    def add(self, stream: CursusStream, reader: Reader) -> None:
        """Add a stream; it replaces the one with the same key."""
        if reader.key is not None:
            before = self._by_key.get(reader.key)
            if before is not None:
                self._close(before, "replaced", before.next_offset, is_last=True)
            self._by_key[reader.key] = stream
        self._readers[stream] = reader
        if reader.may_read is not None and self._authorizer is None:
            self._authorizer = reader.broker.security.authorizer
            assert self._authorizer is not None
            self._authorizer.when_changed(self._permissions_changed)
        if reader.call is not None:
            self._by_group.setdefault(reader.call.group_id, set()).add(stream)
            if self._groups is not reader.broker.groups:
                self._groups = reader.broker.groups
                self._groups.watch_rebalances(self.rebalanced)
            if reader.broker.links is not None and self._checking is None:
                self._checking = self._start(self._check_all(reader.broker.links))
            self._start(self._check(stream))  # the group may have rebalanced since STREAM's check

    def on_event(self, stream: CursusStream, event: StreamEvent) -> None:
        """Handle an event of a stream, as in the table above."""
        reader = self._readers[stream]
        match event:
            case StreamEvent.COMPRESSED:
                self._read_compressed(stream, reader)
            case StreamEvent.TOO_LARGE | StreamEvent.UNREADABLE:
                _skip(stream, stream.skip_offset, event.value)
            case StreamEvent.OUT_OF_RANGE:
                fields = OutOfRangeError(stream.log, stream.next_offset).rest
                start = stream.log.log_start_offset
                self._close(stream, "offset_out_of_range", start, fields, is_last=True)
            case StreamEvent.REMOVED | StreamEvent.STOPPED | StreamEvent.OFFLINE:
                reason, is_last = _ENDS[event]
                self._close(stream, reason, stream.next_offset, is_last=is_last)
            case StreamEvent.CLOSED:
                self._remove(stream, reader)

    def _remove(self, stream: CursusStream, reader: Reader) -> None:
        del self._readers[stream]
        self._decompressed.pop(stream, None)
        task = self._decompressing.pop(stream, None)
        if task is not None:
            task.cancel()  # otherwise peers that reconnect would queue more and more of them
        if reader.key is not None and self._by_key.get(reader.key) is stream:
            del self._by_key[reader.key]
        if reader.call is not None:
            members = self._by_group[reader.call.group_id]
            members.discard(stream)
            if not members:
                del self._by_group[reader.call.group_id]

    def _close(
        self, stream: CursusStream, reason: str, offset: int, fields: str = "", *, is_last: bool
    ) -> None:
        """End a stream; its CLOSE frame has the offset at which the reader may continue."""
        is_positional = self._readers[stream].read.is_positional
        frame = None if is_positional else _close_frame(reason, offset, fields)
        stream.end(frame, is_last=is_last or is_positional)

    def _start(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- compressed batches ----------------------------------------------------------------------

    def _read_compressed(self, stream: CursusStream, reader: Reader) -> None:
        """Read the compressed batch now: after compaction another batch may be at its offset."""
        try:
            data = stream.log.read(stream.next_offset, 1)
            [header, *_] = scan_headers(data)
        except StorageError:
            stream.resume_at(stream.next_offset)  # the stream finds its log offline
            return
        work = self._decompress(stream, reader, header, data[: header.size])
        self._decompressing[stream] = self._start(work)

    async def _decompress(
        self, stream: CursusStream, reader: Reader, header: BatchHeader, batch: bytes
    ) -> None:
        try:
            records = await decompress_records(header, batch, reader.broker.recompression.run)
        except UNREADABLE as error:
            if stream.is_open:
                _skip(stream, header.last_offset + 1, str(error))
        except Exception:  # noqa: BLE001 - logged; without this the stream would wait for ever
            _log.exception("stream closed, a batch could not be decompressed: log=%s", stream.log)
            if stream.is_open:
                self._close(stream, "error", stream.next_offset, is_last=False)
        else:
            self._evict_decompressed(stream, len(records))
            stream.decompress(batch, records)

    def _evict_decompressed(self, stream: CursusStream, size: int) -> None:
        """Drop decompressed records of other streams, oldest first, to stay within the limit.

        A stream whose records are dropped decompresses the batch again once it can send more.
        """
        self._decompressed.pop(stream, None)
        held = {each: each.decompressed_bytes for each in self._decompressed}
        self._decompressed = {each: None for each, has in held.items() if has > 0}
        over = sum(held.values()) + size - CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX
        for each in tuple(self._decompressed):
            if over <= 0:
                break
            over -= held[each]
            each.drop_decompressed()
            del self._decompressed[each]
        if stream.is_open:
            self._decompressed[stream] = None

    # ---- permissions -----------------------------------------------------------------------------

    def _permissions_changed(self) -> None:
        """Check all streams soon, once for the changes that come together."""
        if self._is_permission_checked:
            self._is_permission_checked = False
            self._start(self._check_permissions())

    async def _check_permissions(self) -> None:
        """End the streams of clients that may not read their topic any more."""
        self._is_permission_checked = True
        async for stream in in_steps(tuple(self._readers), PARTITIONS_ANSWERED_PER_STEP):
            reader = self._readers.get(stream)
            if reader is not None and reader.may_read is not None and not reader.may_read():
                self._close(stream, "not_authorized", stream.next_offset, is_last=True)

    # ---- rebalances ------------------------------------------------------------------------------

    def rebalanced(self, group: str) -> None:
        """Start to check the members of a group whose members or partitions have changed."""
        if group in self._by_group and group not in self._changed:
            self._changed.add(group)
            self._start(self._check_group(group))

    async def _check_group(self, group: str) -> None:
        self._changed.discard(group)
        for stream in tuple(self._by_group.get(group, ())):
            await self._check(stream)

    async def _check_all(self, links: "Links") -> None:
        """Check all members again and again: no other broker says when a group rebalances."""
        self._upstreams = links.upstreams()
        try:
            while self._by_group:
                await asyncio.sleep(CURSUS_MEMBERS_CHECKED_SECONDS)
                groups = await self._groups_by_coordinator()
                await asyncio.gather(*(self._check_groups(each) for each in groups.values()))
        finally:
            self._upstreams.close()
            self._upstreams = self._checking = None

    async def _groups_by_coordinator(self) -> dict[int | None, list[str]]:
        found: dict[int | None, list[str]] = {}
        async for group in in_steps(tuple(self._by_group), PARTITIONS_ANSWERED_PER_STEP):
            for stream in self._by_group.get(group, ()):
                coordinator = self._readers[stream].coordinator
                with suppress(RequestError):  # there is none now
                    at = None if coordinator is None else coordinator()
                    found.setdefault(at, []).append(group)
                break
        return found

    async def _check_groups(self, groups: list[str]) -> None:
        """Check the members of the groups of one coordinator, until it does not answer in time.

        So a stopped coordinator delays the next checks of all others by one timeout.
        """
        budget = StepBudget(CURSUS_MEMBERS_CHECKED_PER_STEP)
        for group in groups:
            for stream in tuple(self._by_group.get(group, ())):
                await budget.spend(1)  # this broker's own coordinator answers without a wait
                try:
                    async with asyncio.timeout(CURSUS_MEMBERS_CHECKED_SECONDS):
                        await self._check_member(stream)
                except TimeoutError:
                    return
                except RequestError as error:
                    if error.code is ErrorCode.LEADER_NOT_AVAILABLE:  # it cannot be reached
                        return

    async def _check(self, stream: CursusStream) -> None:
        """Check the member that reads a stream, if its coordinator answers."""
        # A coordinator that is loading reports a rebalance of the group once it has loaded.
        with suppress(RequestError):
            await self._check_member(stream)

    async def _check_member(self, stream: CursusStream) -> None:
        """End the stream of a member that does not belong to the generation any more.

        Raises RequestError if the coordinator does not answer, or is loading.
        """
        reader = self._readers.get(stream)
        if reader is None or reader.call is None:
            return
        try:
            if reader.check is None:
                checked(await reader.broker.groups.assigned_check(reader.call), reader.call)
            else:
                await reader.check(self._upstreams)
        except RefusedError as error:
            if error.code == "coordinator_not_available":  # another broker, which is loading
                raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
            has_structure = reader.connection.has_structured_errors
            text = error.text(is_structured=has_structure)
            stream.end(encoded(text), is_last=False)


def _skip(stream: CursusStream, offset: int, error: str) -> None:
    _log.warning(
        "stream skipped records that it cannot send: log=%s from=%d to=%d error=%s",
        stream.log,
        stream.next_offset,
        offset - 1,
        error,
    )
    stream.resume_at(offset)
