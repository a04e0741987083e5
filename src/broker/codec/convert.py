"""Conversion between message formats, for clients and logs from before Kafka 0.11.

Message sets (magic 0 and 1) from old producers are stored as record batches (magic 2); record
batches are converted to message sets for old consumers. A message has an offset, key and value, and
from magic 1 on a timestamp. Headers, producer ids, sequences and transactions are dropped, control
batches are left out, and batches compressed with zstd cannot be converted.

    >>> from broker.codec import down_convert, encode, up_convert
    >>> [batch] = encode([(b"key", b"value", [("trace", b"7")])], timestamp_ms=0)
    >>> messages = down_convert(batch, 1)
    >>> messages[16], len(messages)
    (1, 42)
    >>> up_convert(messages) == encode([(b"key", b"value")], timestamp_ms=0)
    True
"""

from collections.abc import Hashable
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from broker._native.records.message_set import encode_message, encode_messages
from broker.codec.columns import Columns, decode_columns, moved
from broker.codec.compression import compress
from broker.codec.encoding import encode
from broker.codec.headers import BatchHeader, scan_headers
from broker.codec.span_source import span_source
from broker.model.compressions import COMPRESSIONS, ZSTD
from broker.model.errors import CodecError, LimitExceeded, Unsupported
from broker.model.limits import CODEC_BYTES_MAX, MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_CONTROL: Final = 0x20
_BATCH_MAGIC: Final = 2


def up_convert(
    message_set: "Buffer",
    *,
    base_offset: int | None = None,
    leader_epoch: int = -1,
    batch_bytes_max: int = MESSAGE_BYTES_MAX,
    bytes_max: int = CODEC_BYTES_MAX,
) -> list[bytes]:
    """Return the messages of a set as record batches of version 2.

    Adjacent uncompressed messages share a batch. Each compressed wrapper message becomes a batch
    with the same codec, compressed at the default level. Messages of magic 0 get the timestamp -1.
    LogAppendTime stays LogAppendTime. Batches of version 2 stay unchanged except for a new base
    offset.

    Args:
        message_set: messages of magic 0 and 1; a last one that is cut short is left out.
        base_offset: of the first record, the others follow without gaps; None: every message keeps
            its own offset.
        leader_epoch: of the partition's leader, in new batches; -1: unknown.
        batch_bytes_max: the largest new batch, see `encode`.
        bytes_max: the limit of the decompressed size of all compressed messages together.

    Raises:
        Corrupt: a length or CRC is wrong, or offsets that are to be kept do not ascend.
        Unsupported: an unknown compression type, or its package is not installed.
        LimitExceeded: more than `bytes_max` after decompression, or a record larger than a batch
            may be.

    Source: KIP-31 (relative offsets), KIP-32 (timestamps), KIP-98 (batches of version 2).
    """
    reader = _Reader(message_set, bytes_max)
    batches: list[bytes] = []
    for _, group in groupby(reader.headers, _batch_grouping):
        headers = list(group)
        first = headers[0]
        if first.magic == _BATCH_MAGIC:
            found = [_placed(reader.bytes_of(first), base_offset)]
        else:
            # Decoded first, because an unknown codec is refused there, before COMPRESSIONS is
            # indexed.
            columns = reader.decode(first.position, headers[-1].position + headers[-1].size)
            found = encode(
                columns,
                batch_bytes_max=batch_bytes_max,
                compression=COMPRESSIONS[first.attributes & _CODEC].name,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                timestamp_ms=first.max_timestamp,
                timestamp_type="LogAppendTime" if _is_append_time(first) else "CreateTime",
            )
        batches += found
        if base_offset is not None and found:
            base_offset = scan_headers(found[-1])[0].last_offset + 1
    return batches


def _batch_grouping(header: BatchHeader) -> Hashable:
    """Return the key by which adjacent messages are grouped into one batch."""
    if header.magic == _BATCH_MAGIC or header.attributes & _CODEC:
        return header.position
    return "append time", header.max_timestamp if _is_append_time(header) else None


def _is_append_time(header: BatchHeader) -> bool:
    return header.magic > 0 and bool(header.attributes & _LOG_APPEND_TIME)


def _placed(batch: bytes, base_offset: int | None) -> bytes:
    """Return a batch with another base offset, which the CRC does not cover."""
    return batch if base_offset is None else base_offset.to_bytes(8, signed=True) + batch[8:]


def down_convert(
    batches: "Buffer",
    magic: Literal[0, 1],
    *,
    min_offset: int | None = None,
    output_bytes_max: int | None = None,
    bytes_max: int = CODEC_BYTES_MAX,
) -> bytes:
    """Return the records of batches as messages of magic 0 or 1.

    An uncompressed batch becomes one message per record, a compressed batch one wrapper message
    with the same codec. Offsets stay, with the gaps that compaction has left. Messages of that
    magic or a lower one are returned unchanged. Records of aborted transactions are included,
    because old consumers read uncommitted.

    Args:
        batches: of version 2, or messages; a last one that is cut short is left out.
        magic: the highest that the reader supports.
        min_offset: leave out records with lower offsets from batches that are not compressed.
        output_bytes_max: stop before the batch that would make the result larger; the first is
            converted in any case. None: convert all.
        bytes_max: the limit of the decompressed size of all compressed batches together.

    Raises:
        Corrupt: a length, count or CRC is wrong.
        Unsupported: a batch is compressed with zstd, or its codec's package is not installed.
        LimitExceeded: more than `bytes_max` after decompression.
        ValueError: the magic is neither 0 nor 1.

    Source: KIP-31 (relative offsets), KIP-32 (timestamps).
    """
    if magic not in {0, 1}:
        raise ValueError(f"magic {magic}: expected 0 or 1")
    reader = _Reader(batches, bytes_max)
    sets: list[bytes] = []
    left = output_bytes_max
    for header in reader.headers:
        if header.magic <= magic:
            found = reader.bytes_of(header)
        else:
            found = _messages(reader, header, magic, min_offset)
        if left is not None:
            left -= len(found)
            if sets and left < 0:
                break
        if found:
            sets.append(found)
    return b"".join(sets)


def _messages(reader: "_Reader", header: BatchHeader, magic: int, min_offset: int | None) -> bytes:
    codec = header.attributes & _CODEC
    if header.magic == _BATCH_MAGIC and header.attributes & _CONTROL:
        return b""
    if codec == ZSTD.number:
        raise Unsupported(f"zstd in messages of magic {magic}", header.position)
    columns = reader.decode(
        header.position, header.position + header.size, None if codec else min_offset
    )
    attributes = _LOG_APPEND_TIME if magic > 0 and _is_append_time(header) else 0
    messages = encode_messages(
        span_source(columns.data, columns.column),
        magic=magic,
        attributes=attributes,
        are_relative=codec != 0 and magic > 0,
    )
    if codec == 0 or not messages:
        return messages
    return encode_message(
        compress(codec, messages, magic=magic),
        magic=magic,
        attributes=attributes | codec,
        offset=memoryview(columns.column("offset"))[-1],
        timestamp=max(memoryview(columns.column("timestamp"))),
    )


class _Reader:
    """Decodes batches or messages a few at a time, within one limit for all of them.

    The result of `decode` is valid until the next call, which reuses its memory.
    """

    def __init__(self, data: "Buffer", bytes_max: int) -> None:
        self._view = memoryview(data).cast("B")
        self._bytes_left = bytes_max
        self._before: Columns | None = None
        self.headers = scan_headers(self._view)

    def bytes_of(self, header: BatchHeader) -> bytes:
        return self._view[header.position : header.position + header.size].tobytes()

    def decode(self, start: int, end: int, min_offset: int | None = None) -> Columns:
        try:
            columns = decode_columns(
                self._view[start:end],
                min_offset=min_offset,
                bytes_max=self._bytes_left,
                reuse=self._before,
            )
        except CodecError as error:
            raise moved(error, start) from None
        if "decompressed" in columns.arrays:
            self._bytes_left -= len(columns.arrays["decompressed"])
            if self._bytes_left < 0:  # reused memory may be larger than the limit that was passed
                raise LimitExceeded("more decompressed bytes than allowed", start)
        self._before = columns
        return columns
