"""STREAM: the records of one partition in a sequence of frames, as they are appended.

A stream starts where CONSUME would: at the higher of the requested and the group's committed
offset. If there is neither, autoOffsetReset decides: the log start offset by default. There is one
stream of a topic, partition and group; a new one replaces it. Streams of the positional form have
no group and do not replace each other.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from broker._native.protocols.cursus.stream import CursusStream
from broker.core.groups.commands.assigned import AssignedCall
from broker.core.logs.log import Log
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.model.limits import CURSUS_KEEPALIVE_MS
from broker.protocols.base import Answer
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import reason, refused
from broker.protocols.cursus.grammar import Command, encoded, integer
from broker.protocols.cursus.handlers.offsets import committed_offset
from broker.protocols.cursus.reads import is_committed, member_of, records_max
from broker.protocols.cursus.requests import Request
from broker.protocols.cursus.streams import Reader, close_text

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

_LATEST: Final = -1
_OFFSET_MAX: Final = (1 << 63) - 1
_RESETS: Final = frozenset(("", "earliest", "latest", "error"))


class _Wanted(NamedTuple):
    """The parameters of a STREAM."""

    name: str
    partition: int
    offset: int | None
    group: str  # empty in the positional form
    reset: str
    is_committed: bool
    is_positional: bool
    records_max: int
    member: str  # if it is a member of the group, it must be of `generation`; empty: none
    generation: int


async def handle(request: Request) -> Answer:
    """Open the stream; close it at once if it cannot start at its offset."""
    wanted = _wanted(request.command)
    topic = _topic(request, wanted)
    call = await _call(request, wanted, topic)
    committed = None
    if wanted.group:
        committed = await committed_offset(request, wanted.group, topic.name, wanted.partition)
    log = log_of(topic, wanted.partition)
    offset = _start(wanted, committed, log)
    if offset < log.log_start_offset:
        return _out_of_range(wanted, offset, log)
    stream = CursusStream(
        cast("PartitionLog", log),
        offset,
        encoded(wanted.name),
        is_original=wanted.is_positional,
        is_committed=wanted.is_committed,
        records_max=wanted.records_max,
        keepalive_ms=0 if wanted.is_positional else CURSUS_KEEPALIVE_MS,
        notify=request.state.streams.on_event,
    )
    key = (topic.name, wanted.partition, wanted.group) if wanted.group else None
    request.state.streams.add(
        stream, Reader(request.broker, request.connection, wanted.is_positional, key, call)
    )
    return Answer(None, stream=stream)


def _wanted(command: Command) -> _Wanted:
    is_positional = command.is_positional
    name, group = command.get("topic"), "" if is_positional else command.get("group")
    partition = integer(command.get("partition"))
    if not name or partition is None or not (group or is_positional):
        raise refused("invalid_stream_syntax")
    committed_only = is_committed(command)
    reset = command.get("autoOffsetReset")
    if reset not in _RESETS:
        raise refused("invalid_auto_offset_reset", value=reset)
    return _Wanted(
        name,
        partition,
        _offset(command),
        group,
        reset,
        committed_only,
        is_positional,
        records_max(command),
        *member_of(command, group),
    )


def _offset(command: Command) -> int | None:
    text = command.get("offset")
    if not text:
        return None
    offset = integer(text)
    lowest = _LATEST if command.is_positional else 0
    if offset is None or not lowest <= offset <= _OFFSET_MAX:
        raise reason("command_failed", f"invalid offset value: {text}")
    return offset


def _topic(request: Request, wanted: _Wanted) -> Topic:
    topic = request.broker.topics.get(wanted.name)
    if topic is None:
        raise reason("command_failed", f"topic '{wanted.name}' does not exist")
    if not 0 <= wanted.partition < topic.partition_count:
        raise reason(
            "command_failed",
            f"partition {wanted.partition} out of range for topic '{wanted.name}'"
            f" (0-{topic.partition_count - 1})",
        )
    return topic


async def _call(request: Request, wanted: _Wanted, topic: Topic) -> AssignedCall | None:
    """Return the call that checks the reader's membership, None if it is not a member."""
    if not wanted.member:
        return None
    is_member = await members.check(
        request.broker, topic.name, wanted.group, wanted.member, wanted.generation
    )
    if not is_member:
        return None
    return members.call_of(topic, wanted.group, wanted.member, wanted.generation)


def _start(wanted: _Wanted, committed: int | None, log: Log) -> int:
    end = log.last_stable_offset if wanted.is_committed else log.high_watermark
    if wanted.offset == _LATEST:
        return end
    if wanted.offset is None and committed is None:
        if wanted.reset == "latest":
            return end
        return 0 if wanted.reset == "error" else log.log_start_offset
    return max(wanted.offset or 0, committed or 0)


def _out_of_range(wanted: _Wanted, offset: int, log: Log) -> Answer:
    """Return the CLOSE frame with the log's offsets; clients continue at the log start offset."""
    start, end = log.log_start_offset, log.high_watermark
    if wanted.is_positional:
        raise refused("OFFSET_OUT_OF_RANGE", requested=offset, earliest=start, latest=end)
    text = close_text("offset_out_of_range", start, requested=offset, earliest=start, latest=end)
    return Answer(encoded(text), is_last=True)
