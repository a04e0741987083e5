"""CONSUME: the values of a partition from an offset on, as many as a line may have."""

import asyncio
import logging
from contextlib import aclosing

from broker._native.wire.line_text import carried
from broker.core.lookup import log_of
from broker.core.reading import Unreadable, committed_values
from broker.model.limits import (
    V1_CONSUME_BYTES_MAX,
    V1_CONSUME_RECORDS_MAX,
    V1_VALUE_BYTES_PER_TURN,
)
from broker.protocols.v1.commands import Request, integer, numbers
from broker.protocols.v1.topics import last_readable, topic_or_new

_FIELD = b"hw="  # what no value may have
_TAIL_MASK, _TAIL = 0xC0, 0x80  # a byte of a letter but its first, in UTF-8
_LETTER_BYTES_MAX = 4

_log = logging.getLogger(__name__)


async def handle(request: Request) -> list[bytes]:
    """Read up to the last stable offset; at its end there is nothing, and no error."""
    name, partition_text, offset_text = request.args
    partition = integer(partition_text, "partition")
    offset = integer(offset_text, "offset")
    topic = await topic_or_new(request, name)
    log = log_of(topic, partition)
    high_watermark = last_readable(log)
    line = _Line()
    beside = request.session.broker.recompression.run
    async with aclosing(committed_values(log, max(offset, 0), beside)) as records:
        async for record in records:
            if isinstance(record, Unreadable):
                if not line.skipped:
                    _log.warning(
                        "stepped over: topic=%s partition=%d offset=%d reason=%s",
                        *(name, partition, record.offset, record.reason),
                    )
                if not line.skip(record.offset):
                    break
            elif not await line.add(record.offset, record.value or memoryview(b"")):
                break
    return line.payload(high_watermark)


class _Line:
    """An answer that is being written."""

    def __init__(self) -> None:
        self._parts = [b"messages="]
        self._size = self._count = 0  # of messages
        self._escaped: list[int] = []
        self.skipped: list[int] = []  # the first offset of each batch

    def skip(self, offset: int) -> bool:
        """Note a batch that cannot be read, unless the line is full."""
        if self._is_full():
            return False
        self.skipped.append(offset)
        return True

    async def add(self, offset: int, value: memoryview) -> bool:
        """Add a record, unless it is too much; the first one never is."""
        if self._is_full():
            return False
        if self._count and self._size + len(value) > V1_CONSUME_BYTES_MAX:
            return False
        if len(value) <= V1_VALUE_BYTES_PER_TURN:
            text, is_escaped = carried(bytes(value))
            texts = [text]
        else:
            texts, is_escaped = await _carried_in_steps(value)
        head = b"%b%d:" % (b"," if self._count else b"", offset)
        size = len(head) + sum(map(len, texts))
        if self._count and self._size + size > V1_CONSUME_BYTES_MAX:
            return False
        self._parts += [head, *texts]
        self._size += size
        self._count += 1
        if is_escaped:
            self._escaped.append(offset)
        return True

    def _is_full(self) -> bool:
        return self._count + len(self.skipped) >= V1_CONSUME_RECORDS_MAX

    def payload(self, high_watermark: int) -> list[bytes]:
        """The answer, in pieces."""
        end = f" hw={high_watermark}"
        if self._escaped:
            end += f" escaped={numbers(self._escaped)}"
        if self.skipped:
            end += f" skipped={numbers(self.skipped)}"
        return [*self._parts, end.encode()]


async def _carried_in_steps(value: memoryview) -> tuple[list[bytes], bool]:
    """As `carried`, of a large value; the loop has its turn between two pieces of it."""
    plain: list[bytes] = []
    texts: list[tuple[bytes, bool]] = []
    has_field = False
    start = 0
    while start < len(value):
        end = _end_of_piece(value, start)
        plain.append(bytes(value[start:end]))
        texts.append(carried(plain[-1]))
        around = slice(max(end - len(_FIELD) + 1, 0), end + len(_FIELD) - 1)
        has_field = has_field or _FIELD in bytes(value[around])
        start = end
        await asyncio.sleep(0)
    if not has_field and not any(is_escaped for _, is_escaped in texts):
        return plain, False
    escaped: list[bytes] = []
    for text, is_escaped in texts:  # Where one piece is escaped all are.
        escaped.append(text if is_escaped else text.replace(b"%", b"%25").replace(b"=", b"%3D"))
        await asyncio.sleep(0)
    return escaped, True


def _end_of_piece(value: memoryview, start: int) -> int:
    """Where a piece ends: in front of a letter, if there are letters."""
    end = start + V1_VALUE_BYTES_PER_TURN
    if end >= len(value):
        return len(value)
    for back in range(_LETTER_BYTES_MAX):
        if value[end - back] & _TAIL_MASK != _TAIL:
            return end - back
    return end
