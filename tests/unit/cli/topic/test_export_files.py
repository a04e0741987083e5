"""Files of exports that are damaged, or of other programs."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli.topic import export_verb
from broker.cli.topic.export_files import exported_records, write_parquet
from broker.client.reading import Read
from broker.model.errors import ConfigError, StorageError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

HEADERS = pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))
GOOD: dict[str, Any] = {
    "partition": pa.array([1], pa.int64()),
    "key": ["k"],
    "value": pa.array([b"v"], pa.large_binary()),
    "headers": pa.array([[{"name": "h", "value": b"w"}]]),
    "timestamp_ms": [5],
}


def written(folder: Path, **columns: Any) -> Path:
    """Return a file with other columns than those of an export."""
    file = folder / "file.parquet"
    pq.write_table(pa.table({**GOOD, **columns}), str(file))
    return file


def records(file: Path) -> list[Any]:
    """Read a file."""
    with file.open("rb") as opened:
        return list(exported_records(file, opened))


def test_types_that_mean_the_same_are_read(tmp_path: Path) -> None:
    headers = pa.array([[{"name": "h", "value": "w"}]])

    assert records(written(tmp_path, headers=headers)) == [(1, (b"k", b"v", [(b"h", b"w")], 5))]
    nothing = pa.array([None], HEADERS)
    assert records(written(tmp_path, headers=nothing)) == [(1, (b"k", b"v", [], 5))]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"partition": ["0"]}, "its partition is string, expected int32"),
        ({"partition": [1 << 40]}, "not in range"),
        ({"key": [7]}, "its key is int64, expected binary"),
        ({"headers": [3]}, "its headers is int64"),
        ({"headers": pa.array([[{"name": "h"}]])}, "its headers is list"),
        ({"timestamp_ms": pa.array([1], pa.timestamp("us"))}, "its timestamp_ms is timestamp"),
    ],
)
def test_another_schema_is_refused_with_its_column(
    tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=r"file\.parquet ") as refused:
        records(written(tmp_path, **columns))

    assert said in str(refused.value)


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file.parquet"
    pq.write_table(pa.table({"partition": [0]}), str(file))

    with pytest.raises(ConfigError, match="its timestamp_ms is missing"):
        records(file)


def test_damage_is_an_error_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:8] + b"\xff" * 40 + whole[48:]):
        file.write_bytes(damaged)
        with pytest.raises(ConfigError, match="cannot be read as Parquet"):
            records(file)


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[Read]:
        yield from ()
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        write_parquet(tmp_path / "file.parquet", failing())

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("a.jsonl", "go on with --resume"), ("a.parquet", "begin again"), ("-", "begin again")],
)
def test_a_full_disk_names_what_can_be_done_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    def failing() -> Iterator[Read]:
        yield from ()
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.chdir(tmp_path)

    with pytest.raises(StorageError, match=f"{name} cannot be written: full: make .* {remedy}$"):
        export_verb._write(name, failing())
