"""The one table of compressions."""

import pytest

from broker.model import settings
from broker.model.compressions import BY_NAME, COMPRESSIONS, GZIP, LZ4, SNAPPY, ZSTD


def test_the_index_of_a_compression_is_its_number() -> None:
    assert [compression.name for compression in COMPRESSIONS] == [
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    ]
    assert [compression.number for compression in COMPRESSIONS] == [0, 1, 2, 3, 4]
    assert [BY_NAME[name].name for name in BY_NAME] == list(BY_NAME)


def test_no_level_means_kafkas_default() -> None:
    assert [GZIP.level(None), LZ4.level(None), ZSTD.level(None)] == [-1, 9, 3]
    assert GZIP.level(-1) == -1


def test_levels_have_kafkas_range() -> None:
    assert [GZIP.level(level) for level in (1, 9)] == [1, 9]
    assert [LZ4.level(level) for level in (1, 17)] == [1, 17]
    assert [ZSTD.level(level) for level in (-131_072, 0, 22)] == [-131_072, 0, 22]
    for compression, level in ((GZIP, 0), (GZIP, 10), (LZ4, 0), (LZ4, 18), (ZSTD, 23)):
        with pytest.raises(ValueError, match=f"{compression.name} level {level}"):
            compression.level(level)
    with pytest.raises(ValueError, match="snappy has no levels"):
        SNAPPY.level(1)


def test_the_setting_accepts_exactly_the_existing_compressions() -> None:
    assert settings.COMPRESSION_TYPES == (
        "uncompressed",
        "zstd",
        "lz4",
        "snappy",
        "gzip",
        "producer",
    )
