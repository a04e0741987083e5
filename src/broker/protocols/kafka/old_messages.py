"""Message sets, what clients of the 0.8 to 0.10 era send and read, to batches and back.

Only batches of magic 2 are stored. What an old producer sends becomes one batch, with the codec of
the wrapper that it came in; what an old consumer reads becomes messages again, one per record, or a
wrapper per batch with its codec. The broker looks at the messages, not at the version of the
request: old producers mix them (kafka.md 2.8).
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

from broker._native.records.up_conversion import convert_messages, read_wrapper
from broker.codec import down_convert
from broker.codec.compression import decompress
from broker.core.partition import MAGIC, MAGIC_POSITION
from broker.core.recompression import compress_batch, needs_compression
from broker.model.compressions import COMPRESSIONS, NONE, ZSTD, Compression
from broker.model.errors import CodecError, ErrorCode, LimitExceeded, RequestError, Unsupported
from broker.model.limits import decompressed_bytes_max
from broker.model.topic_config import TopicConfig

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CODEC = 0x07
_OFFSET_BYTES = 8  # of a message, where it begins
_ATTRIBUTES_POSITION = 17  # of a message, int8


def is_message_set(records: bytes) -> bool:
    """Whether these are messages, so far as one can tell from the first: else a batch, or nothing.

    The magic stands at the same place in all formats.
    """
    return len(records) > _ATTRIBUTES_POSITION and records[MAGIC_POSITION] < MAGIC


class Conversion(NamedTuple):
    """A producer's message set (see above), and the topic that is to store it."""

    records: bytes
    config: TopicConfig
    is_long: bool  # it, or all sets of its request together

    @property
    def is_slow(self) -> bool:
        """Whether it takes long: not on the loop."""
        is_compressed = self.records[_ATTRIBUTES_POSITION] & _CODEC != 0
        return self.is_long or is_compressed or needs_compression(self.config, NONE)

    def run(self) -> bytes:
        """The batch to be appended; RequestError when the messages are not what they should be."""
        try:
            came, batch = self._unfolded()
        except LimitExceeded as error:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
        except Unsupported as error:
            raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
        except CodecError as error:
            raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        return compress_batch(self.config, batch, came)

    def _unfolded(self) -> tuple[Compression, bytes]:
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


def for_consumer(batch: "Buffer", magic: Literal[0, 1], offset: int, config: TopicConfig) -> bytes:
    """The records of a stored batch as messages; b"" when there are none from an offset on.

    RequestError for what cannot be told to an old consumer.
    """
    # A batch that was stored when the topic took larger ones is no bomb.
    batch_bytes_max = max(config.integer("max.message.bytes"), len(memoryview(batch)))
    try:
        messages = down_convert(
            batch, magic, min_offset=offset, bytes_max=decompressed_bytes_max(batch_bytes_max)
        )
    except LimitExceeded as error:
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except Unsupported as error:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except CodecError as error:
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    # A wrapper is returned whole. When compaction has left nothing of it from the offset on, its
    # reader would ask for that offset for ever: the wrapper's own offset is that of its last.
    is_behind = int.from_bytes(messages[:_OFFSET_BYTES]) < offset
    return b"" if is_behind else messages
