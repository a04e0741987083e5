"""`broker segment verify` and `dump`: exit codes, what they print, and manifests."""

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from broker.cli import main
from tests.support.batches import batch_of
from tests.support.segment_files import segment_files, write, write_ascending


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_ascending(tmp_path)


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_intact_segments_exit_0_and_are_shown_with_their_digests(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["segment", "verify", str(folder), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["segment"] for row in report["rows"]] == [
        file.name for file in segment_files(folder)
    ]
    assert report["problems"] == []
    assert report["totals"]["undetectable_there"] == "base offset and leader epoch"


def test_damage_exits_1_and_is_shown_with_its_position(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(segment_files(folder)[0], 2 * 1_051 + 100)
    assert main(["segment", "verify", str(folder), "-o", "table"]) == 1
    assert (
        f"problem: {0:020}.log: bytes 2102 to 3153, offsets 20 to 30: a CRC that does not fit"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("words", [["verify"], ["verify", "/nonexistent"], ["unheard-of"], []])
def test_an_invalid_command_line_exits_2(words: list[str]) -> None:
    assert main(["segment", *words]) == 2


def test_verification_against_a_manifest_finds_changed_and_missing_files(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "digests.txt"
    assert main(["segment", "verify", str(folder), "--manifest", str(manifest)]) == 0
    verify = ["segment", "verify", str(folder), "--against", str(manifest), "-o", "table"]
    assert main(verify) == 0
    files = segment_files(folder)
    flip(files[0], 15)  # the epoch of the first batch
    files[1].unlink()
    capsys.readouterr()
    assert main(verify) == 1
    output = capsys.readouterr().out
    assert f"problem: {files[0].name}: XXH3" in output
    assert f"problem: {files[1].name}: in the manifest, but no closed segment here" in output


@pytest.mark.parametrize(
    "content", [b"no manifest", b"XXH3_12  name", b"XXH3_" + b"z" * 16 + b"  n"]
)
def test_an_invalid_manifest_is_a_usage_error(
    folder: Path, tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "digests.txt"
    file.write_bytes(content)
    assert main(["segment", "verify", str(folder), "--against", str(file)]) == 2
    assert "digests.txt line 1" in capsys.readouterr().err


def test_dump_shows_every_batch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", "dump", str(folder), "-o", "jsonl"]) == 0
    rows = lines(capsys)
    assert [row["base_offset"] for row in rows] == list(range(0, 500, 10))
    assert rows[1] == {
        "segment": f"{0:020}.log",
        "position": 1_051,
        "size": 1_051,
        "base_offset": 10,
        "last_offset": 19,
        "count": 10,
        "epoch": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "flags": [],
        "compression": "none",
        "base_timestamp": 1,
        "max_timestamp": 1,
        "crc": "ok",
        "damage": None,
    }


def test_dump_shows_records_as_text_or_base64(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = batch_of([("ключ".encode(), b"\xff", [(b"h", None)]), (None, None, [])], 7)
    folder = write(tmp_path, [batch])
    assert main(["segment", "dump", "--records", str(folder), "-o", "jsonl"]) == 0
    one, other = lines(capsys)
    assert (one["offset"], one["timestamp"], one["key"]) == (0, 7, "ключ")
    assert b64decode(one["value"]["base64"]) == b"\xff"
    assert one["headers"] == [["h", None]]
    assert (other["offset"], other["key"], other["value"]) == (1, None, None)


def test_dump_marks_a_damaged_batch_and_shows_all_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(segment_files(folder)[0], 2 * 1_051 + 8)  # its length
    assert main(["segment", "dump", str(folder), "-o", "jsonl"]) == 1
    rows = lines(capsys)
    [damaged] = [row for row in rows if row["damage"]]
    assert (damaged["position"], damaged["size"], damaged["crc"]) == (2_102, 1_051, None)
    assert [row["base_offset"] for row in rows if row["crc"]] == [
        offset for offset in range(0, 500, 10) if offset != 20
    ]


def test_dump_without_a_format_has_a_line_per_batch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["segment", "dump", str(segment_files(folder)[0])]) == 0
    output = capsys.readouterr().out.splitlines()
    assert len(output) == 19
    assert "base_offset=10  last_offset=19" in output[1]


def test_segment_commands_import_neither_numpy_nor_spark(folder: Path) -> None:
    code = (
        "import sys; from broker.cli import main; main(['segment', 'verify', sys.argv[1]]);"
        "main(['segment', 'dump', sys.argv[1]]);"
        "sys.exit(str({'numpy', 'pyarrow', 'pyspark', 'broker.pipeline'} & {*sys.modules}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "set()"


def test_dump_of_records_has_its_damage_in_each_format(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(segment_files(folder)[0], 2 * 1_051 + 8)
    for format_ in ("jsonl", "csv", "table"):
        assert main(["segment", "dump", "--records", str(folder), "-o", format_]) == 1
        assert "bytes 2102 to 3153, offsets to 30" in " ".join(capsys.readouterr().out.split())
