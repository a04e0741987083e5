"""CONSUME: one batch of records from an offset, in one frame.

Reading starts at the higher of the requested and the group's committed offset. A pattern as topic
reads the same partition of every matching topic, each from its own offset. The positional form
always starts at the requested offset, and its response has the layout of the original document.

A batch has no field for records that cannot be read. So the response ends before them; a CONSUME
that starts at them is answered with an error that has their offsets and the offset to continue at.
"""

import asyncio
import logging
from collections.abc import Iterator
from fnmatch import translate
from re import compile as compile_pattern
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from broker._native.protocols.cursus.frames import CursusFrame
from broker.codec.headers import scan_headers
from broker.core import access
from broker.core.forwarding import check_led, leader_to_ask
from broker.core.logs.log import Log
from broker.core.logs.reading import UNREADABLE, Unreadable, decompress_records
from broker.core.scheduling.steps import in_steps, next_step
from broker.core.security.acls import Operation, ResourceType
from broker.core.topics.lookup import log_of
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    CURSUS_CONSUME_BYTES_MAX,
    CURSUS_PATTERN_TOPICS_MAX,
    CURSUS_RECORD_BYTES_MAX,
    CURSUS_RESPONSE_BYTES_MAX,
    PARTITIONS_ANSWERED_PER_STEP,
    REGEX_MATCHES_PER_SLICE,
)
from broker.model.security_limits import CURSUS_TOPICS_PER_COMMAND
from broker.protocols.cursus import members, permissions
from broker.protocols.cursus.connections import PatternRead
from broker.protocols.cursus.errors import OutOfRangeError, RefusedError
from broker.protocols.cursus.forwarding import forwarded
from broker.protocols.cursus.grammar import encoded, is_pattern
from broker.protocols.cursus.handlers.offsets import committed_offset
from broker.protocols.cursus.merging import merged
from broker.protocols.cursus.reads import LATEST, ONLY, Read, consume_of, consume_text, only_of
from broker.protocols.cursus.requests import Request, having_partition

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)

_UNREADABLE: Final = {
    "unreadable": "they are damaged",
    "too large": "it takes {size} bytes, and a frame has no more than {size_max} for a record",
}


class _Source(NamedTuple):
    """A partition to read."""

    topic: str
    log: Log
    offset: int  # of the first record to read
    end: int  # the high watermark or the last stable offset


async def handle(request: Request) -> bytes:
    """Return the available records, or an empty batch; wait up to `wait_ms` for the first one."""
    wanted = consume_of(request.command)
    if not is_pattern(wanted.name):
        keyword = request.command.keyword
        permissions.check_read(request.session, keyword, wanted.name, wanted.group)
    elif wanted.group:
        permissions.check(
            request.session,
            *(request.command.keyword, Operation.READ, ResourceType.GROUP, wanted.group),
        )
    if is_pattern(wanted.name):
        request.connection.pattern_read = None
    topic = request.broker.topics.get(wanted.name)
    if topic is not None:
        check_led(request.session, topic, wanted.partition)
        if wanted.member:  # groups do not read patterns
            await members.find_reader(request, topic, wanted)
    others = await _others(request, wanted)
    if not others:
        return await _read_here(request, wanted)
    wait = wanted.wait_ms / 1000
    asked = (
        forwarded(request.session, each, frame, wait_seconds=wait)
        for each, names in others.items()
        for frame in _parts(request, names)
    )
    frames = await asyncio.gather(_read_here(request, wanted), *asked)
    read = request.connection.pattern_read
    if read is not None:
        request.connection.pattern_read = read._replace(end=None)
    return merged(
        frames,
        CURSUS_CONSUME_BYTES_MAX,
        wanted.records_max,
        is_original=wanted.is_positional,
    )


async def _others(request: Request, wanted: Read) -> dict[int, list[str]]:
    """Return the topics that match a pattern, by the other broker that leads their partition."""
    session = request.session
    found: dict[int, list[str]] = {}
    if session.broker.links is None or session.is_forwarded or not is_pattern(wanted.name):
        return found
    topics = await matching(request, wanted.name)
    async for topic in in_steps(topics, PARTITIONS_ANSWERED_PER_STEP):
        leader = leader_to_ask(session, topic, wanted.partition)
        if leader is not None:
            found.setdefault(leader, []).append(topic.name)
    return found


def _parts(request: Request, names: list[str]) -> Iterator[bytes]:
    """Yield what another broker is asked for these topics.

    It does not know whose request it is. Where ACLs decide it is told which of the topics that
    match the client may read, in as many commands as that takes.
    """
    if request.broker.security.authorizer is None:
        yield request.body
        return
    for first in range(0, len(names), CURSUS_TOPICS_PER_COMMAND):
        listed = ",".join(names[first : first + CURSUS_TOPICS_PER_COMMAND])
        yield encoded(f"{consume_text(request.command)} {ONLY}={listed}")


async def _read_here(request: Request, wanted: Read) -> bytes:
    """Read the partitions that this broker leads."""
    deadline_ms = request.broker.clock.monotonic_ms() + wanted.wait_ms
    latest: dict[Log, int] = {}
    while True:
        sources = await _sources(request, wanted, latest)
        async with request.broker.long_answers.turn(None, 0, CURSUS_RESPONSE_BYTES_MAX):
            answer = await _answer(request, wanted, sources)
        left_ms = deadline_ms - request.broker.clock.monotonic_ms()
        if answer is not None:
            return answer
        if left_ms <= 0:
            return _frame(wanted).take()
        if any(wanted.end_of(each.log) > each.end for each in sources):
            continue  # a log has grown since it was read
        await request.broker.log_waiters.wait([each.log for each in sources], left_ms / 1000)


async def _answer(request: Request, wanted: Read, sources: list[_Source]) -> bytes | None:
    """Return a frame with the available records, None if there are none."""
    frame = _frame(wanted)
    positions: dict[str, int] = {}
    for source in sources:
        before = frame.count
        has_room = await _read(request, source, wanted, frame)
        if frame.count > before and len(positions) < CURSUS_PATTERN_TOPICS_MAX:
            positions[source.topic] = frame.next_offset
        if not has_room:
            break
    if is_pattern(wanted.name) and not request.session.is_forwarded:
        asked = (wanted.name, wanted.partition, wanted.group)
        request.connection.pattern_read = PatternRead(asked, frame.last_offset + 1, positions)
    return frame.take() if frame.count > 0 else None


def _frame(wanted: Read) -> CursusFrame:
    return CursusFrame(
        encoded(wanted.name),
        wanted.partition,
        is_original=wanted.is_positional,
        bytes_max=CURSUS_CONSUME_BYTES_MAX,
        records_max=wanted.records_max,
    )


async def _sources(request: Request, wanted: Read, latest: dict[Log, int]) -> list[_Source]:
    """Return the partitions to read.

    `latest` keeps the end of each log at the first call: offset -1 starts there.
    """
    topics = having_partition(await matching(request, wanted.name), wanted)
    if request.broker.links is not None and is_pattern(wanted.name):
        topics = [each for each in topics if each.log(wanted.partition) is not None]
    return [await _source(request, wanted, topic, latest) for topic in topics]


async def matching(request: Request, name: str) -> list[Topic]:
    """Return the topic of that name, or those that match a pattern, without internal topics."""
    topics = request.broker.topics
    if not is_pattern(name):
        topic = topics.get(name)
        return [] if topic is None else [topic]
    # Only * and ? are special here. fnmatch would also interpret [, which no topic's name contains.
    if "[" in name:
        return []
    only = only_of(request.command) if request.session.is_forwarded else None
    matches = compile_pattern(translate(name)).match
    return [
        topic
        async for topic in in_steps(topics, REGEX_MATCHES_PER_SLICE)
        if not topic.is_internal
        and matches(topic.name)
        and (only is None or topic.name in only)
        and access.may_read(request.session, topic.name)
    ]


async def _source(request: Request, wanted: Read, topic: Topic, latest: dict[Log, int]) -> _Source:
    log = log_of(topic, wanted.partition)
    end = wanted.end_of(log)
    if wanted.offset == LATEST:
        return _Source(topic.name, log, latest.setdefault(log, end), end)
    offset = wanted.offset or 0
    if wanted.group:
        before = await committed_offset(request, wanted.group, topic.name, wanted.partition)
        offset = max(offset, before or 0)
    if offset < log.log_start_offset:
        raise OutOfRangeError(log, offset)
    return _Source(topic.name, log, offset, end)


async def _read(request: Request, source: _Source, wanted: Read, frame: CursusFrame) -> bool:
    """Add the available records of a partition; return False if the frame is full."""
    log = cast("PartitionLog", source.log)
    offset, before = source.offset, frame.count
    while True:
        found: str | Unreadable = frame.read(
            log, offset, source.end, is_committed=wanted.is_committed
        )
        if found == "compressed":
            found = await _decompress(request, source, frame)
        if found != "open":
            break
        offset = frame.next_offset
        await next_step()
    if found in _UNREADABLE:
        text = _UNREADABLE[found].format(size=frame.large_size, size_max=CURSUS_RECORD_BYTES_MAX)
        found = Unreadable(frame.next_offset, frame.skip_offset - 1, text)
    if found in {"end", "full"}:
        return found == "end"
    if frame.count == before:
        raise _refusal(source, wanted, found)
    return True  # the next CONSUME, which starts at the unreadable records, gets the error


async def _decompress(request: Request, source: _Source, frame: CursusFrame) -> str | Unreadable:
    """Add the next batch, which is compressed; return the frame's status, or Unreadable."""
    offset = frame.next_offset
    data = source.log.read(offset, 1, True, source.end)
    [header, *_] = scan_headers(data)
    batch = data[: header.size]
    try:
        records = await decompress_records(header, batch, request.broker.recompression.run)
    except UNREADABLE as error:
        return Unreadable(offset, header.last_offset, str(error))
    return frame.add(batch, records, offset)


def _refusal(source: _Source, wanted: Read, found: str | Unreadable) -> RefusedError | RequestError:
    """Return the error for a CONSUME that found no readable record at its offset."""
    if found == "out of range":
        return OutOfRangeError(source.log, source.offset)
    if not isinstance(found, Unreadable):
        return RequestError(ErrorCode.KAFKA_STORAGE_ERROR)
    _log.warning(
        "records cannot be read: topic=%s partition=%d offset=%d last_offset=%d reason=%s",
        *(source.topic, wanted.partition, *found),
    )
    return RefusedError(
        "command_failed",
        detail=f"records {found.offset}-{found.last_offset} of topic '{source.topic}' partition"
        f" {wanted.partition} cannot be read, go on at offset {found.last_offset + 1}:"
        f" {found.reason}",
    )
