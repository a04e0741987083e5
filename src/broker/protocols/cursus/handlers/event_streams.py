"""APPEND_STREAM, READ_STREAM, STREAM_VERSION, SAVE_SNAPSHOT, READ_SNAPSHOT.

The key determines the partition, whose leader serves its stream. An append names the version that
its event gets; if that is not the next one, somebody else has written, and it is refused. The
version is compared and reserved in one step with the append, and everything that a response says
is durable when it is sent.
"""

import json
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from broker._native.protocols.cursus.batch import (
    AGGREGATE_VERSION,
    EVENT_TYPE,
    METADATA,
    PRODUCER_ID,
    SCHEMA_VERSION,
    SNAPSHOT_VERSION,
    fnv_1a_64,
)
from broker._native.protocols.cursus.frames import CursusFrame
from broker.codec.columns import records
from broker.codec.encoding import encode
from broker.core.forwarding import check_led
from broker.core.logs.log import Log
from broker.core.logs.partition import append, until_acknowledged
from broker.core.scheduling.steps import next_step
from broker.core.topics.lookup import led_log
from broker.core.topics.topic import Topic
from broker.core.writing import batch_bytes_max
from broker.model.errors import ErrorCode, LimitExceeded, RequestError
from broker.model.limits import CURSUS_CONSUME_BYTES_MAX, CURSUS_RESPONSE_BYTES_MAX
from broker.model.stream_limits import (
    EVENT_KEY_BYTES_MAX,
    EVENTS_PER_ANSWER_MAX,
    EVENTS_READ_PER_STEP,
    SNAPSHOT_BYTES_MAX,
)
from broker.protocols.base import Answer, Immediate
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.event_streams.file import Snapshot
from broker.protocols.cursus.event_streams.partition_streams import PartitionStreams
from broker.protocols.cursus.grammar import encoded, integer
from broker.protocols.cursus.handlers.produce import Row, check_size
from broker.protocols.cursus.requests import Request

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog

_TEXT_BYTES_MAX: Final = 65_535  # of a field in a frame
_SCHEMA_VERSIONS: Final = range(1 << 32)
_VERSIONS: Final = range(1 << 63)
_COMPACT: Final = (",", ":")
_LENGTH_BYTES: Final = 4
_LOG_FAILED: Final = "the log of the partition has failed"


class _Place(NamedTuple):
    """A stream: its topic, key and partition."""

    topic: Topic
    key: bytes
    log: Log
    streams: PartitionStreams


async def append_event(request: Request) -> str:
    """Append an event, if its version is the next one of its stream."""
    command = request.command
    topic, key = _named(request)
    version = _version(request)
    schema_version = _number(request, "schema_version", _SCHEMA_VERSIONS)
    if not command.message:
        raise RefusedError("missing_message", command=command.keyword)
    headers = [
        (PRODUCER_ID, _text(request, "producerId")),
        (EVENT_TYPE, _text(request, "event_type")),
        (SCHEMA_VERSION, b"%d" % schema_version if schema_version else b""),
        (AGGREGATE_VERSION, b"%d" % version),
        (METADATA, _text(request, "metadata")),
    ]
    row = (key, command.message, [each for each in headers if each[1]])
    batch = _batch(request, topic, row)
    place = await _place(request, topic, key)
    await request.state.event_streams.make_room()
    current = await place.streams.version(key)
    if current + 1 != version:
        await _until_durable(place)
        raise RefusedError("version_conflict", current=current, expected=version)
    offset = _append(request, place, batch)
    # Nothing is awaited between `version` and this.
    place.streams.appended(key, version, offset)
    await until_acknowledged(place.log, offset + 1, _LOG_FAILED)
    return f"OK version={version} offset={offset} partition={place.log.partition}"


async def save_snapshot(request: Request) -> str:
    """Store a snapshot of a stream, made at one of its versions."""
    command = request.command
    topic, key = _named(request)
    version = _version(request)
    if version == 0:
        raise RefusedError("invalid_version", command=command.keyword)
    if not command.message:
        raise RefusedError("missing_message", command=command.keyword)
    if len(command.message) > SNAPSHOT_BYTES_MAX:
        text = f"a snapshot has at most {SNAPSHOT_BYTES_MAX} bytes"
        raise RefusedError("invalid_snapshot", detail=text)
    row = (key, command.message, [(SNAPSHOT_VERSION, b"%d" % version)])
    batch = _batch(request, topic, row)
    place = await _place(request, topic, key)
    await request.state.event_streams.make_room()
    current = await place.streams.version(key)
    if version > current:
        await _until_durable(place)
        raise RefusedError("snapshot_version_exceeds_stream", version=version, current=current)
    offset = _append(request, place, batch)
    place.streams.saved(key, Snapshot(version, offset))
    await until_acknowledged(place.log, offset + 1, _LOG_FAILED)
    return f"OK version={version} partition={place.log.partition}"


async def version_of(request: Request) -> str:
    """Return the version of a stream, 0 for one without events."""
    topic, key = _named(request)
    streams = (await _place(request, topic, key)).streams
    return f"OK version={streams.durable_version(key, await streams.version(key))}"


async def read_snapshot(request: Request) -> str:
    """Return the snapshot that was stored last."""
    topic, key = _named(request)
    place = await _place(request, topic, key)
    found = await place.streams.snapshot(key)
    if found is None:
        return "OK snapshot=null"
    return f"OK snapshot={_json(_shown(place.log, found))}"


async def read(request: Request) -> Immediate:
    """Return the events of a stream in two frames: a description, and a batch.

    Its snapshot takes the place of the events up to its version. A stream that does not fit into a
    frame is refused, unless the request has a limit of its own.
    """
    command = request.command
    topic, key = _named(request)
    first = _number(request, "from_version", _VERSIONS) if command.get("from_version") else 1
    if first == 0:
        raise RefusedError("invalid_from_version")
    limit = _number(request, "limit", _VERSIONS)
    place = await _place(request, topic, key)
    async with request.broker.long_answers.turn(None, 0, CURSUS_RESPONSE_BYTES_MAX):
        count_max = min(limit or EVENTS_PER_ANSWER_MAX, EVENTS_PER_ANSWER_MAX)
        found = await place.streams.find(key, first, count_max)
        if not limit and len(found.offsets) > count_max:
            raise _too_long(f"it has more than {count_max} events")
        offsets = found.offsets[:count_max]
        frame = CursusFrame(
            topic.name.encode(),
            place.log.partition,
            is_original=False,
            bytes_max=CURSUS_CONSUME_BYTES_MAX,
            records_max=EVENTS_PER_ANSWER_MAX,
        )
        await _read_events(place, frame, offsets, found.first_version, is_limited=limit > 0)
        description: dict[str, object] = {
            "status": "OK",
            "topic": topic.name,
            "key": key.decode("utf-8", "replace"),
            "partition": place.log.partition,
            "count": frame.count,
        }
        if found.snapshot is not None:
            description["snapshot"] = _shown(place.log, found.snapshot)
        return _answer(request, _json(description).encode(), frame.take())


async def _read_events(
    place: _Place, frame: CursusFrame, offsets: list[int], version: int, *, is_limited: bool
) -> None:
    """Fill the frame with events, the first of which has this version."""
    log = cast("PartitionLog", place.log)
    start = 0
    while start < len(offsets):
        stop = min(start + EVENTS_READ_PER_STEP, len(offsets))
        end = log.high_watermark
        status, start = frame.read_events(log, offsets, version + start, end, start, stop)
        if status == "full":
            if is_limited:
                return
            raise _too_long(f"a frame has {CURSUS_CONSUME_BYTES_MAX} bytes")
        if status != "open":
            text = f"version {version + start} at offset {offsets[start]} cannot be read: {status}"
            raise RefusedError("command_failed", detail=text)
        if start < len(offsets):
            await next_step()


def relayed(answer: bytes) -> Immediate:
    """Return another broker's answer to a READ_STREAM, which is one frame between brokers."""
    if answer[:1] == b"{":  # an error
        return answer
    start = _LENGTH_BYTES + int.from_bytes(answer[:_LENGTH_BYTES], "big")
    return Answer(answer[_LENGTH_BYTES:start], following=answer[start:])


def refusal(error: RefusedError) -> bytes:
    """Return the answer to a READ_STREAM that is refused."""
    return _json({"error": f"{error.code} {error.rest}".strip(), "status": "ERROR"}).encode()


def _answer(request: Request, description: bytes, batch: bytes) -> Immediate:
    if request.session.is_forwarded:
        return len(description).to_bytes(_LENGTH_BYTES, "big") + description + batch
    return Answer(description, following=batch)


def _too_long(text: str) -> Exception:
    return RefusedError("stream_too_long", detail=f"{text}: read it in parts, with limit=")


# ---- the parts of a command ----------------------------------------------------------------------


def _named(request: Request) -> tuple[Topic, bytes]:
    """Return the topic and the key of a command."""
    topic = request.topic()
    key = encoded(request.command.need("key"))
    if not topic.config.has_streams:
        raise RefusedError("event_sourcing_not_enabled", topic=topic.name)
    if len(key) > EVENT_KEY_BYTES_MAX or b"\0" in key:
        raise RefusedError("invalid_key", detail=f"at most {EVENT_KEY_BYTES_MAX} bytes, none is 0")
    return topic, key


def _version(request: Request) -> int:
    request.command.need("version")
    return _number(request, "version", _VERSIONS)


def _number(request: Request, name: str, allowed: range) -> int:
    """Return a number, 0 if it was not given."""
    text = request.command.get(name)
    if not text:
        return 0
    number = integer(text)
    if number is None or number not in allowed:
        raise RefusedError(f"invalid_{name}")
    return number


def _text(request: Request, name: str) -> bytes:
    text = encoded(request.command.get(name))
    if len(text) > _TEXT_BYTES_MAX:
        raise RefusedError(f"invalid_{name}", detail=f"at most {_TEXT_BYTES_MAX} bytes")
    return text


async def _place(request: Request, topic: Topic, key: bytes) -> _Place:
    """Return the stream of a key; ElsewhereError if another broker leads its partition."""
    partition = fnv_1a_64(key) % topic.partition_count
    check_led(request.session, topic, partition)
    log = led_log(topic, partition)
    return _Place(topic, key, log, await request.state.event_streams.of(topic, log))


# ---- records -------------------------------------------------------------------------------------


def _batch(request: Request, topic: Topic, row: Row) -> bytes:
    # A stream is read in one frame: no event is larger than what that has of several.
    check_size([row], CURSUS_CONSUME_BYTES_MAX)
    try:
        [batch] = encode(
            [row],
            batch_bytes_max=batch_bytes_max(topic),
            timestamp_ms=request.broker.clock.wall_ms(),
        )
    except LimitExceeded as error:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    return batch


def _append(request: Request, place: _Place, batch: bytes) -> int:
    """Append a record without any wait; return its offset."""
    if not place.streams.is_present or led_log(place.topic, place.log.partition) is not place.log:
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return append(place.log, place.topic.config, batch, request.broker.clock.wall_ms()).base_offset


async def _until_durable(place: _Place) -> None:
    """Wait for the events that a refusal depends on."""
    end = place.streams.end_of(place.key)
    if end > place.log.high_watermark:
        await until_acknowledged(place.log, end, _LOG_FAILED)


def _shown(log: Log, found: Snapshot) -> dict[str, object]:
    data = log.read(found.offset, 1, True, log.high_watermark)
    for record in records(data):
        if record.offset == found.offset:
            payload = bytes(record.value or b"").decode("utf-8", "replace")
            return {"version": found.version, "payload": payload}
    raise RefusedError("command_failed", detail=f"the snapshot at {found.offset} is damaged")


def _json(thing: object) -> str:
    return json.dumps(thing, separators=_COMPACT, ensure_ascii=False)
