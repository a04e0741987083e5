"""The key map of compaction: its hash compared with an oracle, its limits, its memory."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.records.compaction import KeyCollector
from broker._native.records.key_map import PLACE_BYTES, KeyMap
from tests.oracles.siphash_oracle import siphash128
from tests.support.record_bytes import batch, record

SECRET = bytes(range(16))


def filled(keys: list[bytes], memory_bytes: int) -> KeyMap:
    """Return a map to which the keys were added in order, at offsets from 0."""
    key_map = KeyMap(memory_bytes, SECRET)
    collector = KeyCollector(
        key_map,
        first_offset=0,
        end_offset=len(keys),
        decompress=lambda _codec, _data, _output: 0,
        decompressed_bytes_max=0,
    )
    for offset, key in enumerate(keys):
        if not collector.is_done:
            collector.add(batch([record(0, key)], offset))
    return key_map


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "a3817f04ba25a8e66df67214c7550293"),
        (b"\0", "da87c1d86b99af44347659119b22fc45"),
    ],
)
def test_the_oracle_matches_the_reference_vectors(content: bytes, expected: str) -> None:
    """SipHash-2-4 with 128 bits, vectors.h of the authors' code."""
    assert siphash128(SECRET, content, 2, 4).hex() == expected


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=40))
def test_the_hash_is_siphash_1_3_of_128_bits(secret: bytes, key: bytes) -> None:
    assert KeyMap(4 * PLACE_BYTES, secret).hash_of(key) == siphash128(secret, key, 1, 3)


def test_a_secret_has_16_bytes() -> None:
    with pytest.raises(ValueError, match="a secret of 3 bytes"):
        KeyMap(1024, b"abc")


@given(st.lists(st.binary(max_size=12), max_size=60))
def test_a_map_has_the_last_offset_of_every_key(keys: list[bytes]) -> None:
    key_map = filled(keys, 200 * PLACE_BYTES)
    newest = {key: offset for offset, key in enumerate(keys)}

    assert {key: key_map.get(key) for key in keys} == newest
    assert key_map.count == len(key_map) == len(newest)
    assert key_map.get(b"none of them, it is too long") == -1


def test_a_full_map_updates_known_keys_and_stops_at_the_first_new_one() -> None:
    keys = [b"a", b"b", b"c", b"a", b"b", b"d", b"a"]

    key_map = filled(keys, 4 * PLACE_BYTES)

    assert (key_map.capacity, key_map.count, key_map.end_offset) == (3, 3, 5)
    assert [key_map.get(key) for key in (b"a", b"b", b"c", b"d")] == [3, 4, 2, -1]


def test_a_map_stays_within_its_memory_and_three_quarters_full() -> None:
    keys = [random.Random(7).randbytes(8) + b"%d" % i for i in range(4_000)]

    key_map = filled(keys, 4_000 * PLACE_BYTES)

    assert key_map.capacity == key_map.count == key_map.end_offset == 3_000
    assert all(key_map.get(key) == i for i, key in enumerate(keys[:3_000]))


def test_memory_too_small_for_any_key_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes, expected at least"):
        KeyMap(4 * PLACE_BYTES - 1)
