"""The manifest of a snapshot: it is read as it was written, and refused when it is damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.model.errors import Corrupt, Unsupported
from broker.pipeline.segments import manifest
from broker.pipeline.segments.manifest import Manifest, PartitionEntry, SegmentEntry

SEGMENTS = (
    SegmentEntry(0, 7, 100, 4096, "00000000000000ab"),
    SegmentEntry(7, 12, 50, 50, "0" * 16),
)
ENTRY = PartitionEntry("clicks", "ab" * 16, 3, 0, 12, 11, 2, SEGMENTS)
WHOLE = Manifest("127.0.0.1:9092", 1_700_000_000_000, (ENTRY,))


def changed(folder: Path, **fields: Any) -> None:
    """Write the manifest with other fields of its partition."""
    manifest.write(folder, WHOLE)
    file = folder / manifest.FILE_NAME
    content = json.loads(file.read_text())
    content["partitions"][0] |= fields
    file.write_text(json.dumps(content))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest.write(tmp_path, WHOLE)

    assert manifest.read(tmp_path) == WHOLE


def test_the_file_has_its_version_and_every_field_by_name(tmp_path: Path) -> None:
    manifest.write(tmp_path, WHOLE)

    content = json.loads((tmp_path / "manifest.json").read_text())

    assert content["version"] == 1
    assert content["partitions"][0]["segments"][0] == {
        "base_offset": 0,
        "end_offset": 7,
        "end_position": 100,
        "size": 4096,
        "xxh3_64": "00000000000000ab",
    }


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / manifest.FILE_NAME).write_text('{"version": 2}')

    with pytest.raises(Unsupported, match="version 2, expected 1"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', "\xff"])
def test_an_invalid_manifest_is_corrupt(tmp_path: Path, text: str) -> None:
    (tmp_path / manifest.FILE_NAME).write_text(text, encoding="latin-1")

    with pytest.raises(Corrupt, match=r"manifest\.json"):
        manifest.read(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"high_watermark": -1},
        {"start_offset": "0"},
        {"partition": True},
        {"last_stable_offset": 1 << 63},
        {"topic": "../other"},
        {"topic": None},
        {"segments": [SEGMENTS[1]._asdict(), SEGMENTS[0]._asdict()]},
        {"segments": [{"base_offset": 0}]},
        {"segments": 5},
    ],
)
def test_an_invalid_field_is_corrupt(tmp_path: Path, fields: dict[str, Any]) -> None:
    changed(tmp_path, **fields)

    with pytest.raises(Corrupt, match=r"manifest\.json"):
        manifest.read(tmp_path)


def test_a_folder_without_a_manifest_is_not_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        manifest.read(tmp_path)
