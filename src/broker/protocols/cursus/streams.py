"""The open streams: who reads what, who takes whose place, and what ends one.

    STREAM -> open -> frames ... -> CLOSE frame, connection closed    replaced removed stopped
                                    CLOSE frame                       error
                                    ERROR frame                       the group has rebalanced
                                    the peer goes

Behind the last two frames the connection serves what comes next on it: another STREAM, usually. A
positional stream, whose form knows no such frame, is just closed. What cannot be read is stepped
over, so that no stream stands before it for good: its readers see the gap in the offsets, and the
log line says what is missing.
"""

import asyncio
import logging
from asyncio import Task
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker._native.wire.cursus_stream import CursusStream
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.broker import Broker
from broker.core.groups.assigned.commands import AssignedCall
from broker.core.reading import UNREADABLE, decompress_records
from broker.model.errors import RequestError, StorageError
from broker.model.limits import CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import encoded
from broker.protocols.cursus.members import check_member

if TYPE_CHECKING:
    from broker.core.groups.coordinator import GroupCoordinator

_log = logging.getLogger(__name__)
# Why a stream ends: by what it tells, the reason that clients know, and if the connection ends too.
_ENDS: Final = {
    "removed": ("removed", True),
    "stopped": ("stopped", True),
    "offline": ("error", False),
}
_Key = tuple[str, int, str]


class Reader(NamedTuple):
    """Who opened a stream."""

    broker: Broker
    connection: ConnectionState
    is_positional: bool
    key: _Key | None  # topic, partition and group, of which there is one stream; None: no group
    call: AssignedCall | None  # what its group is asked about it; None: it need be no member


def close_text(reason: str, offset: int, **fields: int) -> str:
    """The frame that ends a stream; clients go on at its offset."""
    more = "".join(f" {name}={value}" for name, value in fields.items())
    return f"STREAM_CONTROL type=CLOSE reason={reason} offset={offset}{more}"


class Streams:
    """Every open stream; there are at most as many as connections."""

    __slots__ = (
        "_by_group",
        "_by_key",
        "_changed",
        "_groups",
        "_readers",
        "_tasks",
        "_unfolded",
        "_unfolding",
    )

    def __init__(self) -> None:
        """Start with none."""
        self._readers: dict[CursusStream, Reader] = {}
        self._by_key: dict[_Key, CursusStream] = {}
        self._by_group: dict[str, set[CursusStream]] = {}  # those of members
        self._changed: set[str] = set()  # groups whose members are still to be asked about
        self._groups: GroupCoordinator | None = None  # that tells when they rebalance
        self._tasks: set[Task[None]] = set()
        self._unfolding: dict[CursusStream, Task[None]] = {}  # the last one of each
        # Those that may hold what was unfolded for them, in the order in which they were given it.
        self._unfolded: dict[CursusStream, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._readers)

    def add(self, stream: CursusStream, reader: Reader) -> None:
        """Know a new stream, which takes the place of the one with its key."""
        if reader.key is not None:
            before = self._by_key.get(reader.key)
            if before is not None:
                self._close(before, "replaced", is_last=True)
            self._by_key[reader.key] = stream
        self._readers[stream] = reader
        if reader.call is not None:
            self._by_group.setdefault(reader.call.group_id, set()).add(stream)
            if self._groups is not reader.broker.groups:
                self._groups = reader.broker.groups
                self._groups.watch_rebalances(self.rebalanced)
            self._start(self._ask_about(stream))  # it may have rebalanced since it was asked

    def told(self, stream: CursusStream, what: str) -> None:
        """Something has come to pass on a stream, see CursusStream."""
        reader = self._readers[stream]
        if what == "closed":
            self._forget(stream, reader)
        elif what == "folded":
            self._read_folded(stream, reader)
        elif what == "out of range":
            log = stream.log
            start = log.log_start_offset
            self._close(
                stream,
                "offset_out_of_range",
                is_last=True,
                offset=start,
                requested=stream.next_offset,
                earliest=start,
                latest=log.high_watermark,
            )
        elif what in _ENDS:
            reason, is_last = _ENDS[what]
            self._close(stream, reason, is_last=is_last)
        else:
            _step_over(stream, stream.skip_offset, what)

    def _forget(self, stream: CursusStream, reader: Reader) -> None:
        del self._readers[stream]
        self._unfolded.pop(stream, None)
        unfolding = self._unfolding.pop(stream, None)
        if unfolding is not None:
            unfolding.cancel()  # or peers that come and go have ever more of it wait
        if reader.key is not None and self._by_key.get(reader.key) is stream:
            del self._by_key[reader.key]
        if reader.call is not None:
            members = self._by_group[reader.call.group_id]
            members.discard(stream)
            if not members:
                del self._by_group[reader.call.group_id]

    def _close(self, stream: CursusStream, reason: str, *, is_last: bool, **fields: int) -> None:
        """End a stream with the offset at which its reader may go on."""
        if self._readers[stream].is_positional:
            stream.end(None, is_last=True)
            return
        offset = fields.pop("offset", stream.next_offset)
        stream.end(encoded(close_text(reason, offset, **fields)), is_last=is_last)

    def _start(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- compressed batches ----------------------------------------------------------------------

    def _read_folded(self, stream: CursusStream, reader: Reader) -> None:
        """Read the batch that was told of at once: later it may be another one that is there."""
        try:
            data = stream.log.read(stream.next_offset, 1)
            [header, *_] = scan_headers(data)
        except StorageError:
            stream.resume_at(stream.next_offset)  # it finds its log offline
            return
        work = self._unfold(stream, reader, header, data[: header.size])
        self._unfolding[stream] = self._start(work)

    async def _unfold(
        self, stream: CursusStream, reader: Reader, header: BatchHeader, batch: bytes
    ) -> None:
        try:
            records = await decompress_records(header, batch, reader.broker.recompression.run)
        except UNREADABLE as error:
            if stream.is_open:
                _step_over(stream, header.last_offset + 1, str(error))
        except Exception:  # noqa: BLE001 - told; nothing else would ever end it, or have it go on
            _log.exception("a stream ends over a batch: log=%s", stream.log)
            if stream.is_open:
                self._close(stream, "error", is_last=False)
        else:
            self._make_room(stream, len(records))
            stream.unfold(batch, records)

    def _make_room(self, stream: CursusStream, size: int) -> None:
        """Have streams whose peers do not read let go of what was unfolded for them, oldest first.

        They ask for it again once they can send more.
        """
        self._unfolded.pop(stream, None)
        held = {each: each.unfolded_bytes for each in self._unfolded}
        self._unfolded = {each: None for each, has in held.items() if has > 0}
        over = sum(held.values()) + size - CURSUS_STREAMS_DECOMPRESSED_BYTES_MAX
        for each in tuple(self._unfolded):
            if over <= 0:
                break
            over -= held[each]
            each.drop_unfolded()
            del self._unfolded[each]
        if stream.is_open:
            self._unfolded[stream] = None

    # ---- rebalances ------------------------------------------------------------------------------

    def rebalanced(self, group: str) -> None:
        """A group has other members or partitions: its streams are looked at, not here."""
        if group in self._by_group and group not in self._changed:
            self._changed.add(group)
            self._start(self._ask_about_all(group))

    async def _ask_about_all(self, group: str) -> None:
        self._changed.discard(group)
        for stream in tuple(self._by_group.get(group, ())):
            await self._ask_about(stream)

    async def _ask_about(self, stream: CursusStream) -> None:
        """End the stream of one who is not of the generation any more."""
        reader = self._readers.get(stream)
        if reader is None or reader.call is None:
            return
        # A coordinator that loads tells of the group when it knows it.
        with suppress(RequestError):
            try:
                await check_member(reader.call, reader.broker.groups)
            except RefusedError as error:
                has_structure = reader.connection.has_structured_errors
                text = error.refusal.text(is_structured=has_structure)
                stream.end(encoded(text), is_last=False)


def _step_over(stream: CursusStream, offset: int, what: str) -> None:
    _log.warning(
        "stream steps over what it cannot send: log=%s from=%d to=%d error=%s",
        stream.log,
        stream.next_offset,
        offset - 1,
        what,
    )
    stream.resume_at(offset)
