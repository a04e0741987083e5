"""Lines of exports, and what else may be in such a file."""

import io
from pathlib import Path

import pytest

from broker.cli.topic.export_files import exported_ends, exported_records
from broker.model.errors import ConfigError


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b"{",
        b"[]",
        b"\xff",
        b'{"timestamp_ms": 9223372036854775808}',
        b'{"timestamp_ms": 1.5}',
        b'{"partition": -1}',
        b'{"partition": 2147483648}',
        b'{"headers": [{}]}',
    ],
)
def test_a_wrong_line_is_named(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^x\.jsonl, line 2: "):
        list(exported_records(Path("x.jsonl"), io.BytesIO(b'{"value": "a"}\n' + line)))


@pytest.mark.parametrize(
    "line", ["{}", '{"topic": "t"}', '{"topic": "t", "partition": 0, "offset": "1"}']
)
def test_an_export_goes_on_only_behind_an_export(line: str, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(line + "\n")

    with pytest.raises(ConfigError, match=r"x\.jsonl, line 1"):
        exported_ends(file, "t")


def test_the_line_that_was_cut_short_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    whole = '{"topic": "t", "partition": 3, "offset": 7}\n'
    file.write_text(whole + '{"topic": "t", "part')

    assert exported_ends(file, "t") == {3: 8}
    assert file.read_text() == whole
