"""The optional packages, installed or not."""

import sys
from collections.abc import Callable, Iterator

import pytest

from broker.codec.compression import gzip_members, lz4_frames, snappy_blocks, zstd_frames
from tests.support.compressed import CHOICES

_FOUND = (
    gzip_members._library,
    gzip_members._denser_library,
    lz4_frames._library,
    snappy_blocks._library,
    zstd_frames._zstandard,
    zstd_frames._cramjam,
)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that hides packages until the end of the test."""

    def hide(*packages: str) -> None:
        for package in packages:
            monkeypatch.setitem(sys.modules, package, None)
        for found in _FOUND:
            found.cache_clear()

    yield hide
    monkeypatch.undo()
    for found in _FOUND:
        found.cache_clear()


@pytest.fixture(params=CHOICES)
def libraries(request: pytest.FixtureRequest, without: Callable[..., None]) -> str:
    """Run the test with each choice of libraries."""
    choice: str = request.param
    without(*CHOICES[choice])
    return choice
