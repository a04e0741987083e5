"""Detection of a frame's body: a batch or a text, with or without envelope and compression.

    BA 7C                      a batch
    00 xx                      an envelope: the length of a topic, the topic, then one of the others
    1F 8B                      gzip
    82 53 4E 41 50 50 59 00    snappy in the framing of xerial, as Java's clients write it
    04 22 4D 18                lz4 frames
    28 B5 2F FD                zstd
    a word, white space        a text command
    anything else, or an invalid batch: a raw snappy block, if it contains a whole batch

A raw snappy block begins with its decompressed length, which may look like anything above. A
compressed body does not contain another compressed one, and decompresses to at most the size of a
frame.
"""

from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from broker._native.protocols.cursus.batch import CursusBatch
from broker.codec.compression import decompress
from broker.core.logs.recompression import Recompression
from broker.model.compressions import GZIP, LZ4, SNAPPY, ZSTD
from broker.model.errors import CodecError
from broker.model.limits import CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX, CURSUS_FRAME_BYTES_MAX
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import BLANKS, WHITE_SPACE, keyword_of

MAGIC: Final = b"\xba\x7c"
_ENVELOPE: Final = 0
_ENVELOPE_HEAD_BYTES: Final = 2
_LENGTH_OF_TOPIC: Final = slice(0, 2)
_CODECS: Final = (
    (b"\x1f\x8b", GZIP.number),
    (b"\x82SNAPPY\x00", SNAPPY.number),
    (b"\x04\x22\x4d\x18", LZ4.number),
    (b"\x28\xb5\x2f\xfd", ZSTD.number),
)


class Text(NamedTuple):
    """A text command that is not parsed yet."""

    body: bytes
    is_enveloped: bool


# An error is of a body that begins like a batch but is invalid.
Body: TypeAlias = Text | CursusBatch | RefusedError


def codec_of(body: bytes) -> int | None:
    """Return the number of the codec that a body's first bytes indicate, None for none."""
    return next((codec for magic, codec in _CODECS if body.startswith(magic)), None)


async def read(body: bytes, thread: Recompression) -> Body:
    """Detect and decompress a body; a long one is decompressed in a thread.

    Raises:
        RefusedError: the body is neither a batch nor a text.
    """
    codec = codec_of(body)
    if codec is None and len(body) > _ENVELOPE_HEAD_BYTES and body[0] == _ENVELOPE:
        inner = _unwrapped(body)
        codec = codec_of(inner)
        if codec is not None:
            body = inner
    if codec is not None:
        return read_plain(await _decompressed(codec, body, thread))
    try:
        found = read_plain(body)
    except RefusedError:
        batch = await _snappy_batch(body, thread)
        if batch is None:
            raise
        return batch
    if isinstance(found, RefusedError) or (isinstance(found, Text) and not _is_command(found)):
        return await _snappy_batch(body, thread) or found
    return found


def read_plain(body: bytes) -> Body:
    """Detect a body that is not compressed; RefusedError as in `read`."""
    if body.startswith(MAGIC):
        return _batch(body)
    if body and (body[:1].isalpha() or body[0] in WHITE_SPACE):
        return Text(body, is_enveloped=False)
    inner = _unwrapped(body)
    return _batch(inner) if inner.startswith(MAGIC) else Text(inner, is_enveloped=True)


def _batch(body: bytes) -> CursusBatch | RefusedError:
    try:
        return CursusBatch(body)
    except CodecError as error:
        return RefusedError("batch_decode_failed", detail=str(error))


def _unwrapped(body: bytes) -> bytes:
    """Return the content of an envelope; its topic is ignored, because commands repeat it."""
    if len(body) < _ENVELOPE_HEAD_BYTES:
        raise RefusedError("decode_failed", detail="data too short")
    start = _ENVELOPE_HEAD_BYTES + int.from_bytes(body[_LENGTH_OF_TOPIC], "big")
    if start > len(body):
        raise RefusedError("decode_failed", detail="invalid topic length")
    return body[start:]


def _is_command(text: Text) -> bool:
    return bool(keyword_of(text.body.strip(BLANKS)[:32]))


async def _decompressed(codec: int, body: bytes, thread: Recompression) -> bytes:
    try:
        if len(body) <= CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX:
            with suppress(CodecError):  # too long, or invalid, which the thread reports below
                return decompress(codec, body, CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX)
        return await thread.decompress(codec, body, CURSUS_FRAME_BYTES_MAX)
    except CodecError as error:
        raise RefusedError("decode_failed", detail=str(error)) from None


async def _snappy_batch(body: bytes, thread: Recompression) -> CursusBatch | None:
    try:
        found = read_plain(await _decompressed(SNAPPY.number, body, thread))
    except RefusedError:
        return None
    return found if isinstance(found, CursusBatch) else None
