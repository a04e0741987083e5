"""Manifests of digests, as xxhsum writes and reads them."""

from pathlib import Path

import pytest

from broker.model.errors import ConfigError
from broker.segments import digest_manifest


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    digests = {"orders-0/00000000000000000000.log": 0xB11F2D30226F02A8, "a-1/1.log": 1}

    digest_manifest.write(tmp_path / "sums", digests)

    assert digest_manifest.read(tmp_path / "sums") == digests


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sums: no such file"):
        digest_manifest.read(tmp_path / "sums")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "not a manifest"),
        (b"XXH3_0011223344556677\n", "line 1: expected"),
        (b"XXH3_001122334455667z  a.log\n", "line 1: .* is not a digest"),
        (b"0011223344556677  a.log\n", "line 1: expected"),
    ],
)
def test_an_invalid_manifest_is_refused_with_its_line(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "sums").write_bytes(content)

    with pytest.raises(ConfigError, match=reason):
        digest_manifest.read(tmp_path / "sums")
