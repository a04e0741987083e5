"""Conversion between batches and message sets, the format of Kafka 0.8 to 0.10 clients.

Only batches of magic 2 are stored. A message set becomes one batch, with the codec of its wrapper
message; a batch is returned as messages, one per record, or as one wrapper message with its codec.
The format is detected from the messages, not from the API version: old producers send either magic
in any of these versions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from broker._native.records.up_conversion import convert_messages, read_wrapper
from broker.codec import down_convert
from broker.codec.compression import decompress
from broker.codec.headers import BatchHeader
from broker.core.logs.partition import MAGIC, MAGIC_POSITION
from broker.core.logs.recompression import Recompression, compress_batch, needs_compression
from broker.core.scheduling.steps import StepBudget
from broker.model.compressions import COMPRESSIONS, NONE, ZSTD, Compression
from broker.model.errors import CodecError, ErrorCode, LimitExceeded, RequestError, Unsupported
from broker.model.limits import (
    OLD_FETCH_BATCH_BYTES,
    OLD_FETCH_BYTES_PER_TURN,
    OLD_MESSAGES_BYTES_MAX,
    decompressed_bytes_max,
)
from broker.model.topic_config import TopicConfig

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CODEC = 0x07
_CONTROL = 0x20
_OFFSET_BYTES = 8  # of a message, where it begins
_ATTRIBUTES_POSITION = 17  # of a message, int8


def is_message_set(records: bytes) -> bool:
    """Return whether these are messages, by the first magic byte; otherwise a batch, or nothing.

    The magic byte is at the same position in all formats.
    """
    return len(records) > _ATTRIBUTES_POSITION and records[MAGIC_POSITION] < MAGIC


class Conversion(NamedTuple):
    """The conversion of a producer's message set for a topic."""

    records: bytes
    config: TopicConfig

    @property
    def is_slow(self) -> bool:
        """Whether it is too long for the event loop."""
        is_compressed = self.records[_ATTRIBUTES_POSITION] & _CODEC != 0
        is_long = len(self.records) > OLD_MESSAGES_BYTES_MAX
        return is_long or is_compressed or needs_compression(self.config, NONE)

    def run(self) -> bytes:
        """Return the batch to append; RequestError if the messages are invalid."""
        with _client_errors():
            came, batch = self._converted()
        return compress_batch(self.config, batch, came)

    def _converted(self) -> tuple[Compression, bytes]:
        wrapper = read_wrapper(self.records)
        if wrapper is None:
            return NONE, convert_messages(self.records)
        codec, magic, append_time, start, size = wrapper
        if codec >= ZSTD.number:
            raise Unsupported(f"codec {codec} in a message of magic {magic}")
        messages = decompress(
            codec,
            memoryview(self.records)[start : start + size],
            decompressed_bytes_max(self.config.integer("max.message.bytes")),
        )
        batch = convert_messages(messages, magic=magic, append_time=append_time)
        return COMPRESSIONS[codec], batch


@contextmanager
def _client_errors() -> Iterator[None]:
    """Raise errors of the codec as the RequestError that clients get."""
    try:
        yield
    except LimitExceeded as error:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except Unsupported as error:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except CodecError as error:
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def for_consumer(batch: "Buffer", magic: Literal[0, 1], offset: int, config: TopicConfig) -> bytes:
    """Convert a stored batch to messages; b"" if it has no record from an offset on.

    RequestError if an old consumer cannot read it.
    """
    # A batch from a time when the topic allowed larger ones is not a decompression bomb.
    batch_bytes_max = max(config.integer("max.message.bytes"), len(memoryview(batch)))
    with _client_errors():
        messages = down_convert(
            batch, magic, min_offset=offset, bytes_max=decompressed_bytes_max(batch_bytes_max)
        )
    # A wrapper message is returned whole, and has the offset of its last message. If compaction has
    # removed all its messages from the requested offset on, the consumer would request that offset
    # forever.
    is_behind = int.from_bytes(messages[:_OFFSET_BYTES]) < offset
    return b"" if is_behind else messages


class Converter(NamedTuple):
    """Converts stored batches for a request of an old consumer, in steps or in the thread."""

    magic: Literal[0, 1]
    recompression: Recompression
    budget: StepBudget

    async def convert(
        self, batch: memoryview, header: BatchHeader, offset: int, config: TopicConfig
    ) -> bytes:
        """Return the messages of a batch as `for_consumer`; none of a control or empty batch."""
        await self.budget.spend(max(header.size, OLD_FETCH_BATCH_BYTES))
        if header.record_count == 0 or header.attributes & _CONTROL:
            return b""
        convert = partial(for_consumer, batch, self.magic, offset, config)
        if header.attributes & _CODEC != 0 or header.size > OLD_FETCH_BYTES_PER_TURN:
            return await self.recompression.run(convert)
        return convert()
