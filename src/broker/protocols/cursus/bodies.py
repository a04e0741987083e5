"""What a frame's body is: a batch, or a text, in an envelope or not, compressed or not.

    BA 7C                      a batch
    00 xx                      an envelope: a topic behind its length, then one of the others
    1F 8B                      gzip
    82 53 4E 41 50 50 59 00    snappy in the frames of Java's clients (xerial)
    04 22 4D 18                lz4, frames
    28 B5 2F FD                zstd
    a word, white space        a text command
    anything else, or a batch that cannot be read: a raw snappy block, if a whole batch is in it

A raw snappy block begins with its plain length, which may look like anything above. What is
compressed is not compressed again inside, and unfolds to no more than a frame may have.
"""

from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from broker._native.wire.cursus_batch import CursusBatch
from broker.codec.compression import decompress
from broker.core.recompression import Recompression
from broker.model.compressions import GZIP, LZ4, SNAPPY, ZSTD
from broker.model.errors import CodecError
from broker.model.limits import CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX, CURSUS_FRAME_BYTES_MAX
from broker.protocols.cursus.errors import Refusal, RefusedError, quoted, refused
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
    """A command that is still to be parsed."""

    body: bytes
    is_enveloped: bool


class BadBatch(NamedTuple):
    """What begins as a batch does and cannot be read."""

    refusal: Refusal


Body: TypeAlias = Text | CursusBatch | BadBatch


def codec_of(body: bytes) -> int | None:
    """The compression that a body's first bytes announce."""
    return next((codec for magic, codec in _CODECS if body.startswith(magic)), None)


async def read(body: bytes, thread: Recompression) -> Body:
    """Find out what a body is, long compressed ones beside the loop; RefusedError for nothing."""
    codec = codec_of(body)
    if codec is None and len(body) > _ENVELOPE_HEAD_BYTES and body[0] == _ENVELOPE:
        inner = _unwrapped(body)
        codec = codec_of(inner)
        if codec is not None:
            body = inner
    if codec is not None:
        return read_plain(await _unfolded(codec, body, thread))
    try:
        found = read_plain(body)
    except RefusedError:
        batch = await _snappy_batch(body, thread)
        if batch is None:
            raise
        return batch
    if isinstance(found, BadBatch) or (isinstance(found, Text) and not _is_command(found)):
        return await _snappy_batch(body, thread) or found
    return found


def read_plain(body: bytes) -> Body:
    """Find out what a body is that is not compressed."""
    if body.startswith(MAGIC):
        return _batch(body)
    if body and (body[:1].isalpha() or body[0] in WHITE_SPACE):
        return Text(body, is_enveloped=False)
    inner = _unwrapped(body)
    return _batch(inner) if inner.startswith(MAGIC) else Text(inner, is_enveloped=True)


def _batch(body: bytes) -> CursusBatch | BadBatch:
    try:
        return CursusBatch(body)
    except CodecError as error:
        return BadBatch(Refusal("batch_decode_failed", f"reason={quoted(str(error))}"))


def _unwrapped(body: bytes) -> bytes:
    """What an envelope holds; its topic says nothing that the text does not."""
    if len(body) < _ENVELOPE_HEAD_BYTES:
        raise refused("decode_failed", reason=quoted("data too short"))
    start = _ENVELOPE_HEAD_BYTES + int.from_bytes(body[_LENGTH_OF_TOPIC], "big")
    if start > len(body):
        raise refused("decode_failed", reason=quoted("invalid topic length"))
    return body[start:]


def _is_command(text: Text) -> bool:
    return bool(keyword_of(text.body.strip(BLANKS)[:32]))


async def _unfolded(codec: int, body: bytes, thread: Recompression) -> bytes:
    try:
        if len(body) <= CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX:
            with suppress(CodecError):  # it is longer, or what is wrong is found out below
                return decompress(codec, body, CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX)
        return await thread.decompress(codec, body, CURSUS_FRAME_BYTES_MAX)
    except CodecError as error:
        raise refused("decode_failed", reason=quoted(str(error))) from None


async def _snappy_batch(body: bytes, thread: Recompression) -> CursusBatch | None:
    try:
        found = read_plain(await _unfolded(SNAPPY.number, body, thread))
    except RefusedError:
        return None
    return found if isinstance(found, CursusBatch) else None
