"""One task of an archive: a range of offsets into Parquet files."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from broker import codec
from broker._native.kernel import file_ops
from broker.client.fetch import Chunk, Range
from broker.client.metadata import Cluster
from broker.pipeline.jobs.archive_files import ArchivedFile, FileWriter

NOON = 1_700_000_000_000  # 2023-11-14 22:13 UTC
DAY = 86_400_000
PART = Range("t", "", 3, 0, 100)


def write(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: list[int], file_bytes: int = 1 << 20
) -> list[ArchivedFile]:
    """Archive a chunk per ten records, which have these timestamps (ms)."""

    def fetch(_cluster: Cluster, _part: Range, *, is_committed: bool) -> list[Chunk]:
        assert is_committed
        chunks = []
        for start in range(0, len(times), 10):
            some = times[start : start + 10]
            rows = [(b"k", b"v" * 50, [("h", b"1")], each) for each in some]
            data = b"".join(codec.encode(rows, base_offset=start))
            chunks.append(Chunk(memoryview(data), start, start + len(some), []))
        return chunks

    monkeypatch.setattr("broker.pipeline.jobs.archive_files.fetch", fetch)
    batch = FileWriter(folder, file_bytes).write(Cluster([]), PART)
    return [ArchivedFile(**row) for row in batch.to_pylist()]


def test_records_are_archived_in_the_files_of_their_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write(tmp_path, monkeypatch, [NOON, NOON + DAY, NOON, -1 - DAY])

    assert [(each.date, each.rows, each.first_offset, each.last_offset) for each in files] == [
        ("1969-12-30", 1, 3, 3),
        ("2023-11-14", 2, 0, 2),
        ("2023-11-15", 1, 1, 1),
    ]
    assert all(each.path.startswith(f"date={each.date}/part-00003-") for each in files)
    assert all((tmp_path / each.path).stat().st_size == each.size for each in files)


def test_a_record_without_a_timestamp_is_archived_before_the_first_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write(tmp_path, monkeypatch, [NOON, -1])

    assert [(each.date, each.first_offset) for each in files] == [
        ("1969-12-31", 1),
        ("2023-11-14", 0),
    ]
    [row] = pq.ParquetFile(str(tmp_path / files[0].path)).read().to_pylist()
    assert row["timestamp"] is None


def test_a_file_has_every_column_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = write(tmp_path, monkeypatch, [NOON])

    [row] = pq.ParquetFile(str(tmp_path / file.path)).read().to_pylist()
    assert row.pop("timestamp").timestamp() * 1000 == NOON
    assert row == {
        "key": b"k",
        "value": b"v" * 50,
        "topic": "t",
        "partition": 3,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
    }


def test_a_file_that_is_large_enough_is_closed_and_another_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write(tmp_path, monkeypatch, [NOON] * 30, file_bytes=1)

    assert [(each.first_offset, each.last_offset) for each in files] == [(0, 9), (10, 19), (20, 29)]


def test_the_number_of_open_files_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.pipeline.jobs.archive_files.ARCHIVE_FILES_OPEN", 1)

    files = write(tmp_path, monkeypatch, [NOON, NOON + DAY] * 2)

    assert sum(each.rows for each in files) == 4
    assert [each.rows for each in files] == [2, 2]


def test_a_range_without_records_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write(tmp_path, monkeypatch, []) == []


def test_files_and_their_names_are_durable_when_they_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ops.start_recording()
    files = write(tmp_path, monkeypatch, [NOON, NOON + DAY])
    file_ops.stop_recording()

    synced = [(op, path) for op, path, *_ in file_ops.recorded() if op.startswith("sync")]
    paths = [tmp_path / each.path for each in files]
    assert synced == [
        *(("sync", str(each)) for each in paths),
        *(("sync_folder", str(each.parent)) for each in paths),
        ("sync_folder", str(tmp_path)),
    ]
