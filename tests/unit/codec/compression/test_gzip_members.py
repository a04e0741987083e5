"""gzip: members, and the level of each library."""

import gzip
import time
from collections.abc import Callable

import pytest

from broker.codec import compression
from broker.model.errors import Corrupt, LimitExceeded, Truncated
from broker.model.limits import COMPRESSED_PIECES_MIN
from tests.support.compressed import text

MANY = 2 * COMPRESSED_PIECES_MIN

CONTENT = text(20_000)


@pytest.mark.usefixtures("libraries")
def test_consecutive_members_are_one_content() -> None:
    parts = [CONTENT[:1], b"", CONTENT[1:15_000], CONTENT[15_000:]]
    data = b"".join(gzip.compress(part) for part in parts)

    assert compression.decompress(1, data, len(CONTENT)) == CONTENT
    with pytest.raises(LimitExceeded):
        compression.decompress(1, data, len(CONTENT) - 1)


@pytest.mark.usefixtures("libraries")
def test_an_error_names_the_position_of_the_damaged_member() -> None:
    first, second = gzip.compress(b"first"), bytearray(gzip.compress(b"second"))
    second[-8] ^= 1  # its checksum

    with pytest.raises(Corrupt) as raised:
        compression.decompress(1, first + second, 100)

    assert raised.value.position == len(first)


@pytest.mark.usefixtures("libraries")
def test_a_member_that_is_cut_short_is_truncated() -> None:
    first, second = gzip.compress(b"first"), gzip.compress(b"second")

    with pytest.raises(Truncated) as raised:
        compression.decompress(1, first + second[:-1], 100)

    assert raised.value.position == len(first)


def test_the_number_of_members_is_limited_before_they_take_long() -> None:
    data = gzip.compress(b"") * MANY
    started = time.process_time()

    with pytest.raises(LimitExceeded, match="members"):
        compression.decompress(1, data, 100)

    assert time.process_time() - started < 1


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("wrong", [b"\x1f\x8b\x07", b"\x1f\x8c\x08", b"\x78\x9c\x03"])
def test_data_without_a_gzip_header_is_corrupt(wrong: bytes) -> None:
    with pytest.raises(Corrupt):
        compression.decompress(1, wrong + gzip.compress(CONTENT)[3:], 100_000)


def test_a_high_level_compresses_as_well_with_isal_as_without(without: Callable[..., None]) -> None:
    with_isal = [compression.compress(1, CONTENT, level) for level in (4, 9)]
    without("isal")

    assert [compression.compress(1, CONTENT, level) for level in (4, 9)] == with_isal
