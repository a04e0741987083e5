"""The binary form: a type byte and big-endian fields; all of the original's clients use it.

    string    uint16 length | UTF-8
    error     FE | uint16 code | uint16 length | UTF-8

Bytes after a complete request are ignored. The texts of decode errors are the original's.
"""

from collections.abc import Callable
from itertools import starmap
from struct import Struct
from typing import Any

from broker._native.protocols.rustlog.record_run import check_run
from broker.core.scheduling.steps import in_steps
from broker.model.limits import NAMES_READ_PER_STEP, RUSTLOG_FRAME_BYTES_MAX
from broker.protocols.rustlog import messages
from broker.protocols.rustlog.errors import Failure, RefusalError

_UINT16 = Struct(">H")
_UINT32 = Struct(">I")
_UINT64 = Struct(">Q")
_PRODUCED = Struct(">BQI")
_COUNT = Struct(">BI")
_END = Struct(">IQ")
_ERROR = Struct(">BHH")
_TEXT_BYTES_MAX = 0xFFFF
_ERROR_KIND = 0xFE
FORWARDING = 0x70  # a request of this broker's only; the original has 01 to 09 and FF


class _Reader:
    """Reads the fields of a request in order; the error for a missing field names it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.position = 1

    def number(self, layout: Struct, what: str) -> int:
        if self.position + layout.size > len(self.body):
            raise _bad(f"missing {what}")
        (value,) = layout.unpack_from(self.body, self.position)
        self.position += layout.size
        return int(value)

    def string(self, what: str) -> str:
        size = self.number(_UINT16, f"{what} length")
        data = self.body[self.position : self.position + size]
        if len(data) < size:
            raise _bad(f"truncated {what}")
        self.position += size
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise _bad(f"invalid utf8 {what}: {_utf8_error(error)}") from None

    def partition(self) -> int:
        return self.number(_UINT32, "partition")

    def offset(self) -> int:
        return self.number(_UINT64, "offset")


def _bad(what: str) -> RefusalError:
    return RefusalError(Failure.BAD_REQUEST, what=what)


def _utf8_error(error: UnicodeDecodeError) -> str:
    """Return the text of Rust's Utf8Error."""
    if error.reason == "unexpected end of data":
        return f"incomplete utf-8 byte sequence from index {error.start}"
    size = error.end - error.start
    return f"invalid utf-8 sequence of {size} bytes from index {error.start}"


# ---- requests ------------------------------------------------------------------------------------


def _produce(reader: _Reader) -> messages.Produce:
    topic = reader.string("topic")
    partition = reader.partition()
    count = reader.number(_UINT32, "record count")
    cut = check_run(reader.body, reader.position, count)
    if cut is not None:
        raise _bad("truncated record length" if cut == "length" else "truncated record")
    return messages.Produce(topic, partition, messages.Run(reader.body, reader.position, count))


def _fetch(reader: _Reader) -> messages.Fetch:
    group = reader.string("group_id")
    topic = reader.string("topic")
    partition = reader.partition()
    offset = reader.offset()
    return messages.Fetch(
        group or None, topic, partition, offset, reader.number(_UINT32, "max_bytes")
    )


def _offset_commit(reader: _Reader) -> messages.OffsetCommit:
    group = reader.string("group")
    topic = reader.string("topic")
    return messages.OffsetCommit(group, topic, reader.partition(), reader.offset())


def _offset_fetch(reader: _Reader) -> messages.OffsetFetch:
    group = reader.string("group")
    topic = reader.string("topic")
    return messages.OffsetFetch(group, topic, reader.partition())


def _create_topic(reader: _Reader) -> messages.CreateTopic:
    topic = reader.string("topic")
    return messages.CreateTopic(topic, reader.number(_UINT32, "partition count"))


def _forwarding(reader: _Reader) -> messages.Forwarding:
    return messages.Forwarding(reader.string("client host"), reader.number(_UINT64, "revision"))


def _describe_partition(reader: _Reader) -> messages.DescribePartition:
    topic = reader.string("topic")
    return messages.DescribePartition(topic, reader.partition())


_REQUESTS: dict[int, Callable[[_Reader], messages.Request]] = {
    0x01: _produce,
    0x02: _fetch,
    0x03: _offset_commit,
    0x04: _offset_fetch,
    0x05: _create_topic,
    0x06: lambda _: messages.ListTopics(),
    0x07: lambda reader: messages.DescribeTopic(reader.string("topic")),
    0x08: _describe_partition,
    0x09: lambda _: messages.MetricsFetch(),
    FORWARDING: _forwarding,
    0xFF: lambda _: messages.Ping(),
}


# ---- responses -----------------------------------------------------------------------------------


def _string(text: str) -> bytes:
    data = text.encode()
    return _UINT16.pack(len(data)) + data


def _group_offset(answer: messages.GroupOffset) -> bytes:
    return b"\x04\x00" if answer.offset is None else b"\x04\x01" + _UINT64.pack(answer.offset)


async def _topic_list(answer: messages.TopicList) -> bytes:
    """Write as many topics as fit into a frame, in steps."""
    rows = []
    remaining_bytes = RUSTLOG_FRAME_BYTES_MAX - _COUNT.size
    async for name, partitions in in_steps(answer.topics, NAMES_READ_PER_STEP):
        row = _string(name) + _UINT32.pack(partitions)
        remaining_bytes -= len(row)
        if remaining_bytes < 0:
            break
        rows.append(row)
    return _COUNT.pack(0x06, len(rows)) + b"".join(rows)


def _topic_ends(answer: messages.TopicEnds) -> bytes:
    counts = _UINT32.pack(answer.partition_count) + _UINT32.pack(len(answer.ends))
    return b"\x07" + _string(answer.topic) + counts + b"".join(starmap(_END.pack, answer.ends))


def ends_of(answer: bytes) -> list[tuple[int, int]]:
    """Return the partitions and offsets of another broker's answer to DescribeTopic.

    Raises RefusalError, if that is what it has answered.
    """
    _check_answer(answer, 0x07, Failure.DESCRIBE_TOPIC)
    start = 3 + int.from_bytes(answer[1:3], "big") + 2 * _UINT32.size
    return list(_END.iter_unpack(answer[start:]))


def group_offset_of(answer: bytes, failure: Failure) -> int | None:
    """Return the offset of another broker's answer to OffsetFetch, None if none is committed.

    Raises RefusalError with this failure, if it has answered with an error.
    """
    _check_answer(answer, 0x04, failure)
    return int.from_bytes(answer[2:], "big") if answer[1] else None


def offset_fetch(group: str, topic: str, partition: int) -> bytes:
    """Return the request OffsetFetch."""
    return b"\x04" + _string(group) + _string(topic) + _UINT32.pack(partition)


def describe_topic(topic: str) -> bytes:
    """Return the request DescribeTopic."""
    return b"\x07" + _string(topic)


def _check_answer(answer: bytes, kind: int, failure: Failure) -> None:
    if answer[0] != kind:
        text = answer[_ERROR.size :].decode("utf-8", "replace")
        raise RefusalError(failure, reason=f"another broker answers: {text}")


def _partition_end(answer: messages.PartitionEnd) -> bytes:
    return b"\x08" + _string(answer.topic) + _END.pack(answer.partition, answer.end)


def _metrics(answer: messages.Metrics) -> bytes:
    text = answer.text.encode()
    return _COUNT.pack(0x09, len(text)) + text


_RESPONSES: dict[type, Callable[[Any], bytes]] = {
    messages.Produced: lambda answer: _PRODUCED.pack(0x01, answer.base_offset, answer.length),
    messages.Fetched: lambda answer: answer.body,
    messages.Committed: lambda _: b"\x03\x01",
    messages.GroupOffset: _group_offset,
    messages.Created: lambda _: b"\x05\x01",
    messages.TopicEnds: _topic_ends,
    messages.PartitionEnd: _partition_end,
    messages.Metrics: _metrics,
    messages.Pong: lambda _: b"\xff",
    messages.Accepted: lambda _: bytes((FORWARDING,)),
}


class Binary:
    """The binary encoding of requests and responses."""

    is_json = False

    async def parse(self, body: bytes) -> messages.Request:
        """Parse a request of at least one byte; raise RefusalError if it is invalid."""
        read = _REQUESTS.get(body[0])
        if read is None:
            raise RefusalError(Failure.UNKNOWN_REQUEST, kind=body[0])
        return read(_Reader(body))

    async def write(self, response: messages.Response) -> bytes:
        """Encode a response, a long one in steps."""
        if isinstance(response, messages.TopicList):
            return await _topic_list(response)
        return _RESPONSES[type(response)](response)

    def refuse(self, refusal: RefusalError) -> bytes:
        """Encode an error; a text that is too long for its length field is truncated."""
        text = refusal.text.encode()[:_TEXT_BYTES_MAX].decode(errors="ignore").encode()
        return _ERROR.pack(_ERROR_KIND, refusal.failure.value.code, len(text)) + text
