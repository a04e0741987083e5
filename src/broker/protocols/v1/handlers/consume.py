"""CONSUME: the values of a partition from an offset, up to the limits of a response line."""

import logging
from contextlib import aclosing

from broker._native.protocols.v1.line_text import escape_value
from broker.core.broker import Broker
from broker.core.forwarding import check_led
from broker.core.logs.log import Log
from broker.core.logs.reading import Unreadable, committed_values
from broker.core.scheduling.steps import next_step
from broker.core.topics.lookup import log_of
from broker.model.limits import (
    V1_CONSUME_BYTES_MAX,
    V1_CONSUME_RECORDS_MAX,
    V1_LONG_VALUE_BYTES_MAX,
    V1_VALUE_BYTES_PER_TURN,
)
from broker.protocols.v1.commands import Request, integer, numbers
from broker.protocols.v1.topics import last_readable, topic_or_new

_FIELD = b"hw="  # clients search the line for it, so no value may contain it unescaped
_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80  # of UTF-8's continuation bytes
_CHARACTER_BYTES_MAX = 4

_log = logging.getLogger(__name__)


async def handle(request: Request) -> list[bytes]:
    """Read up to the last stable offset; from there on the response is empty, not an error."""
    name, partition_text, offset_text = request.args
    partition = integer(partition_text, "partition")
    offset = integer(offset_text, "offset")
    topic = await topic_or_new(request, name)
    check_led(request.session, topic, partition)
    log = log_of(topic, partition)
    high_watermark = last_readable(log)
    broker = request.session.broker
    start = max(offset, 0)
    try:
        line = await _read(broker, log, start, _Line(V1_CONSUME_BYTES_MAX))
    except _LongValueError:
        # Such a line is in memory until it is sent, so these requests take turns.
        async with broker.long_answers.turn(None, 0, V1_LONG_VALUE_BYTES_MAX):
            line = await _read(broker, log, start, _Line(V1_LONG_VALUE_BYTES_MAX))
    return line.payload(high_watermark)


async def _read(broker: Broker, log: Log, start: int, line: "_Line") -> "_Line":
    async with aclosing(committed_values(log, start, broker.recompression.run)) as records:
        async for record in records:
            if isinstance(record, Unreadable):
                if not line.skipped:
                    _log_skipped(log, record.offset, record.reason)
                if not line.skip(record.offset):
                    break
            elif not await line.add(record.offset, record.value or memoryview(b"")):
                break
    for offset, size in line.too_large:
        _log_skipped(log, offset, f"a value of {size} bytes")
    return line


def _log_skipped(log: Log, offset: int, reason: str) -> None:
    _log.warning("records skipped: log=%s offset=%d reason=%s", log, offset, reason)


class _LongValueError(Exception):
    """The first value is longer than V1_CONSUME_BYTES_MAX."""


class _Line:
    """A response line that is being written."""

    def __init__(self, first_bytes_max: int) -> None:
        """Start an empty line whose first value may have `first_bytes_max` bytes once escaped."""
        self._first_bytes_max = first_bytes_max
        self._parts = [b"messages="]
        self._size = self._count = 0  # of messages
        self._escaped: list[int] = []
        self.skipped: list[int] = []  # the first offset of each batch
        self.too_large: list[tuple[int, int]] = []  # offset and bytes of a value

    def skip(self, offset: int) -> bool:
        """Add the first offset of an unreadable batch; return False if the line is full."""
        if self._is_full():
            return False
        self.skipped.append(offset)
        return True

    async def add(self, offset: int, value: memoryview) -> bool:
        """Add a record; return False if the line is full.

        Raises:
            _LongValueError: the value is longer than `first_bytes_max`; a line that allows
                V1_LONG_VALUE_BYTES_MAX may have room for it.
        """
        if self._is_full():
            return False
        if self._count and self._size + len(value) > V1_CONSUME_BYTES_MAX:
            return False
        if len(value) > self._first_bytes_max:
            return self._leave_out(offset, len(value))
        if len(value) <= V1_VALUE_BYTES_PER_TURN:
            text, is_escaped = escape_value(bytes(value))
            texts = [text]
        else:
            texts, is_escaped = await _escaped_in_steps(value)
        head = b"%b%d:" % (b"," if self._count else b"", offset)
        size = len(head) + sum(map(len, texts))
        if self._count and self._size + size > V1_CONSUME_BYTES_MAX:
            return False
        if size - len(head) > self._first_bytes_max:
            return self._leave_out(offset, len(value))
        self._parts += [head, *texts]
        self._size += size
        self._count += 1
        if is_escaped:
            self._escaped.append(offset)
        return True

    def _leave_out(self, offset: int, size: int) -> bool:
        if self._first_bytes_max < V1_LONG_VALUE_BYTES_MAX:
            raise _LongValueError
        self.too_large.append((offset, size))
        return True

    def _is_full(self) -> bool:
        left_out = len(self.skipped) + len(self.too_large)
        return self._count + left_out >= V1_CONSUME_RECORDS_MAX

    def payload(self, high_watermark: int) -> list[bytes]:
        """Return the payload of the response as a list of pieces."""
        end = f" hw={high_watermark}"
        if self._escaped:
            end += f" escaped={numbers(self._escaped)}"
        if self.skipped:
            end += f" skipped={numbers(self.skipped)}"
        if self.too_large:
            sizes = " ".join(f"{offset}:{size}" for offset, size in self.too_large)
            end += f" too_large=[{sizes}]"
        return [*self._parts, end.encode()]


async def _escaped_in_steps(value: memoryview) -> tuple[list[bytes], bool]:
    """Return what `carried` returns, for a large value and in steps, as a list of pieces."""
    plain: list[bytes] = []
    texts: list[tuple[bytes, bool]] = []
    has_field = False
    start = 0
    while start < len(value):
        end = _end_of_piece(value, start)
        plain.append(bytes(value[start:end]))
        texts.append(escape_value(plain[-1]))
        around = slice(max(end - len(_FIELD) + 1, 0), end + len(_FIELD) - 1)
        has_field = has_field or _FIELD in bytes(value[around])
        start = end
        await next_step()
    if not has_field and not any(is_escaped for _, is_escaped in texts):
        return plain, False
    escaped: list[bytes] = []
    for text, is_escaped in texts:  # If one piece is escaped, all are.
        escaped.append(text if is_escaped else text.replace(b"%", b"%25").replace(b"=", b"%3D"))
        await next_step()
    return escaped, True


def _end_of_piece(value: memoryview, start: int) -> int:
    """Return where a piece ends: before a UTF-8 character, so that none is split."""
    end = start + V1_VALUE_BYTES_PER_TURN
    if end >= len(value):
        return len(value)
    for back in range(_CHARACTER_BYTES_MAX):
        if value[end - back] & _CONTINUATION_MASK != _CONTINUATION:
            return end - back
    return end
