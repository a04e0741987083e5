"""The kinds of frame bodies, and those that resemble another kind."""

import asyncio
import gzip
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.cursus.batch import CursusBatch
from broker.codec.compression import compress
from broker.core.logs.recompression import Recompression
from broker.model.compressions import LZ4, SNAPPY, ZSTD
from broker.model.limits import CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX, CURSUS_FRAME_BYTES_MAX
from broker.protocols.cursus.bodies import Body, Text, read
from broker.protocols.cursus.errors import RefusedError
from tests.support.compressed import raw_snappy
from tests.support.cursus_client import Message, batch, envelope

BATCH = batch("t", 2, [Message(b"hi" * 50, 1, b"p", b"k", 5)] * 3)
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xerial": lambda data: compress(SNAPPY.number, data),
    "raw snappy": raw_snappy,
    "lz4": lambda data: compress(LZ4.number, data),
    "zstd": lambda data: compress(ZSTD.number, data),
}


def read_now(body: bytes) -> Body:
    recompression = Recompression()
    try:
        return asyncio.run(read(body, recompression))
    finally:
        recompression.stop()


def refusal(body: bytes) -> str:
    with pytest.raises(RefusedError) as refused:
        read_now(body)
    return refused.value.text()


@pytest.mark.parametrize("codec", ["plain", *COMPRESSORS])
def test_a_batch_is_recognized_with_any_compression(codec: str) -> None:
    found = read_now(BATCH if codec == "plain" else COMPRESSORS[codec](BATCH))

    assert isinstance(found, CursusBatch)
    assert (found.topic, found.count) == (b"t", 3)


@pytest.mark.parametrize("codec", ["plain", "gzip", "xerial", "lz4", "zstd"])
def test_a_batch_is_recognized_in_an_envelope(codec: str) -> None:
    inner = BATCH if codec == "plain" else COMPRESSORS[codec](BATCH)

    assert isinstance(read_now(envelope(inner, "t")), CursusBatch)


def test_a_large_batch_is_decompressed_in_a_thread() -> None:
    large = batch("t", 0, [Message(bytes(1000))] * 1000)
    assert len(large) > CURSUS_DECOMPRESSED_ON_LOOP_BYTES_MAX

    for codec in COMPRESSORS.values():
        found = read_now(codec(large))
        assert isinstance(found, CursusBatch)
        assert found.count == 1000


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"LIST", Text(b"LIST", is_enveloped=False)),
        (b" \nLIST", Text(b" \nLIST", is_enveloped=False)),
        (b"\0\0LIST", Text(b"LIST", is_enveloped=True)),
        (b"\0\5adminLIST", Text(b"LIST", is_enveloped=True)),
        (b"\0\0", Text(b"", is_enveloped=True)),
        (gzip.compress(b"LIST", mtime=0), Text(b"LIST", is_enveloped=False)),
        (gzip.compress(b"\0\0LIST", mtime=0), Text(b"LIST", is_enveloped=True)),
    ],
)
def test_a_text_command_is_recognized(body: bytes, text: Text) -> None:
    assert read_now(body) == text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "data too short"),
        (b"\0", "data too short"),
        (b"\0\5adm", "invalid topic length"),
        (b"\x7f\xff\0\0", "invalid topic length"),
    ],
)
def test_an_unrecognizable_body_is_refused(body: bytes, reason: str) -> None:
    assert refusal(body) == f'ERROR: decode_failed reason="{reason}"'


@pytest.mark.parametrize("codec", ["gzip", "xerial", "lz4", "zstd"])
def test_a_body_that_cannot_be_decompressed_is_refused(codec: str) -> None:
    compressed = COMPRESSORS[codec](BATCH)

    assert refusal(compressed[: len(compressed) // 2]).startswith("ERROR: decode_failed reason=")


def test_a_decompression_bomb_is_not_decompressed() -> None:
    bomb = gzip.compress(bytes(CURSUS_FRAME_BYTES_MAX + 1), 1)

    assert refusal(bomb).startswith("ERROR: decode_failed reason=")


def test_a_batch_that_cannot_be_parsed_is_refused() -> None:
    found = read_now(BATCH[:-1])

    assert isinstance(found, RefusedError)
    assert found.text() == ('ERROR: batch_decode_failed reason="the batch ends within a record"')


def snappy_of(plain_bytes: int) -> bytes:
    empty = batch("t", 0, [Message(b"")])
    return raw_snappy(batch("t", 0, [Message(b"x" * (plain_bytes - len(empty)))]))


@pytest.mark.parametrize(
    ("plain_bytes", "looks_like"),
    [
        (84, b"T"),  # a command
        (15_930, b"\xba\x7c"),  # a batch
        (123, b"{"),
        (0x1F80 // 0x80 * 0x80 + 0x1F, b"\x9f"),
    ],
)
def test_a_raw_snappy_block_that_resembles_another_format_is_recognized(
    plain_bytes: int, looks_like: bytes
) -> None:
    body = snappy_of(plain_bytes)
    assert body.startswith(looks_like)

    found = read_now(body)

    assert isinstance(found, CursusBatch)
    assert found.count == 1


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_recognized_or_refused(data: bytes) -> None:
    for body in (data, b"\0\0" + data, b"\x1f\x8b" + data):
        with suppress(RefusedError):
            read_now(body)
