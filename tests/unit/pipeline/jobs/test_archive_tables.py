"""The files of an archive's table, and where it continues, after a kill at any moment."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from broker import codec
from broker._native.kernel import file_ops
from broker.client.fetch import Chunk, Range
from broker.client.metadata import Cluster, Topic
from broker.model.errors import ConfigError
from broker.pipeline.jobs.archive_files import ArchivedFile, FileWriter
from broker.pipeline.jobs.archive_tables import ParquetTable, Table, open_table

ID = "0123456789abcdef" * 2
TOPIC = Topic("clicks", ID, (0, 1), is_internal=False)
FORMATS = ("delta", "parquet")
NOON = 1_700_000_000_000  # 2023-11-14
DAY = 86_400_000


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition whose records have their offsets as values."""

    def fetch(_cluster: Cluster, part: Range, *, is_committed: bool) -> list[Chunk]:
        assert is_committed
        rows = [(None, b"%d" % each, None, NOON) for each in range(part.start, part.end)]
        data = b"".join(codec.encode(rows, base_offset=part.start))
        return [Chunk(memoryview(data), part.start, part.end, [])]

    monkeypatch.setattr("broker.pipeline.jobs.archive_files.fetch", fetch)


def written(table: Table, start: int, end: int, partition: int = 0) -> list[ArchivedFile]:
    """Return the files of a range, as a task of the archive writes them."""
    writer = FileWriter(table.staging("run"), 1 << 20)
    batch = writer.write(Cluster([]), Range(TOPIC.name, ID, partition, start, end))
    return [ArchivedFile(**row) for row in batch.to_pylist()]


def records(table: Table) -> list[tuple[int, int]]:
    """Return what a reader of the table sees: partition and offset of every record, sorted."""
    if isinstance(table, ParquetTable):
        files = sorted(table.folder.glob("date=*/*.parquet"))
    else:
        deltalake = pytest.importorskip("deltalake")
        files = [Path(each) for each in deltalake.DeltaTable(str(table.folder)).file_uris()]
    found: list[tuple[int, int]] = []
    for file in files:
        rows = pq.ParquetFile(str(file)).read()
        found += zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    return sorted(found)


def synced() -> list[tuple[str, str]]:
    """Return what was made durable since the recording began, in order."""
    file_ops.stop_recording()
    return [(op, path) for op, path, *_ in file_ops.recorded() if op.startswith("sync")]


def offsets(*ranges: range, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, each) for one in ranges for each in one]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_table_continues_where_its_last_commit_ends(table_format: str, tmp_path: Path) -> None:
    table = open_table(tmp_path / "t", table_format, TOPIC)
    assert table.next_offset(0) is None
    table.commit(written(table, 5, 9), {0: 9}, NOON)
    table.commit(written(table, 0, 3, partition=1), {1: 3}, NOON)

    again = open_table(tmp_path / "t", table_format, TOPIC)

    assert [again.next_offset(each) for each in (0, 1, 2)] == [9, 3, None]
    assert records(again) == [*offsets(range(5, 9)), *offsets(range(3), partition=1)]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_without_files_advances_the_offsets(table_format: str, tmp_path: Path) -> None:
    open_table(tmp_path, table_format, TOPIC).commit([], {0: 9}, NOON)

    assert open_table(tmp_path, table_format, TOPIC).next_offset(0) == 9


@pytest.mark.parametrize(
    ("table_format", "folder", "name"),
    [
        ("delta", "_delta_log", "00000000000000000001.json"),
        ("parquet", "_polylog", "draft-1"),
    ],
)
def test_a_commit_and_its_name_are_durable_when_it_is_returned(
    table_format: str, folder: str, name: str, tmp_path: Path
) -> None:
    table = open_table(tmp_path, table_format, TOPIC)
    files = written(table, 0, 4)
    file_ops.start_recording()
    table.commit(files, {0: 4}, NOON)

    done = synced()
    commits = tmp_path / folder
    at = done.index(("sync", str(commits / name)))
    assert ("sync_folder", str(commits)) in done[at + 1 :]


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_new_table_is_durable_before_anything_is_written_to_it(
    table_format: str, tmp_path: Path
) -> None:
    file_ops.start_recording()
    open_table(tmp_path / "t", table_format, TOPIC)

    assert synced()[-2:] == [("sync_folder", str(tmp_path / "t")), ("sync_folder", str(tmp_path))]


def test_moved_files_are_durable_before_their_old_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ParquetTable(tmp_path, TOPIC)
    files = written(table, 0, 4)
    removals: list[list[tuple[str, str]]] = []
    monkeypatch.setattr(shutil, "rmtree", lambda _: removals.append(synced()))
    file_ops.start_recording()
    table.commit(files, {0: 4}, NOON)

    [done] = removals
    place = tmp_path / files[0].path
    assert done[-2:] == [("sync_folder", str(place.parent)), ("sync_folder", str(tmp_path))]


@pytest.mark.parametrize("table_format", FORMATS)
def test_merged_files_are_durable(table_format: str, tmp_path: Path) -> None:
    table = open_table(tmp_path, table_format, TOPIC)
    for start in range(0, 20, 10):
        table.commit(written(table, start, start + 10), {0: start + 10}, NOON)
    before = set(tmp_path.glob("date=*/*.parquet"))
    file_ops.start_recording()
    table.compact(1 << 20, NOON)

    done = synced()
    [joined] = set(tmp_path.glob("date=*/*.parquet")) - before
    assert joined.name in {Path(path).name for op, path in done if op == "sync"}
    assert ("sync_folder", str(joined.parent)) in done


@pytest.mark.parametrize("table_format", FORMATS)
def test_files_of_a_run_killed_before_its_commit_do_not_count(
    table_format: str, tmp_path: Path
) -> None:
    killed = open_table(tmp_path, table_format, TOPIC)
    written(killed, 0, 4)

    table = open_table(tmp_path, table_format, TOPIC)
    assert records(table) == []
    table.commit(written(table, 0, 4), {0: 4}, NOON)

    assert records(table) == offsets(range(4))


def test_moves_left_by_a_commit_are_done_when_the_table_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ParquetTable(tmp_path, TOPIC)
    files = [*written(table, 0, 4), *written(table, 0, 4, partition=1)]
    with monkeypatch.context() as killed:
        killed.setattr(ParquetTable, "_finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            table.commit(files, {0: 4, 1: 4}, NOON)
    # It was killed after the first of the two files.
    (tmp_path / files[0].path).parent.mkdir()
    shutil.move(tmp_path / "_polylog" / "run" / files[0].path, tmp_path / files[0].path)

    again = ParquetTable(tmp_path, TOPIC)

    assert again.next_offset(1) == 4
    assert records(again) == [*offsets(range(4)), *offsets(range(4), partition=1)]


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("other", [TOPIC._replace(name="other"), TOPIC._replace(topic_id=ID[::-1])])
def test_the_archive_of_another_topic_is_refused(
    other: Topic, table_format: str, tmp_path: Path
) -> None:
    open_table(tmp_path, table_format, TOPIC).commit([], {0: 1}, NOON)

    with pytest.raises(ConfigError, match="is the archive of topic 'clicks'"):
        open_table(tmp_path, table_format, other)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_folder_that_is_not_an_archive_is_refused(table_format: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ConfigError, match="has files in it"):
        open_table(tmp_path, table_format, TOPIC)
    with pytest.raises(ConfigError, match="is not"):
        open_table(tmp_path, table_format, None)


def test_a_delta_table_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    schema = deltalake.Schema([deltalake.Field("a", "integer")])
    deltalake.DeltaTable.create(str(tmp_path), schema)

    with pytest.raises(ConfigError, match="not an archive of a topic"):
        open_table(tmp_path, "delta", TOPIC)


@pytest.mark.parametrize("table_format", FORMATS)
def test_of_two_concurrent_archives_one_is_refused(table_format: str, tmp_path: Path) -> None:
    first = open_table(tmp_path, table_format, TOPIC)
    first.commit(written(first, 0, 2), {0: 2}, NOON)
    second = open_table(tmp_path, table_format, TOPIC)
    second.commit(written(second, 2, 4), {0: 4}, NOON)

    with pytest.raises(ConfigError, match="another archive"):
        first.commit(written(first, 2, 6), {0: 6}, NOON)

    assert records(open_table(tmp_path, table_format, TOPIC)) == offsets(range(4))


def test_files_that_another_archive_removed_as_leftovers_are_not_committed(tmp_path: Path) -> None:
    first = ParquetTable(tmp_path, TOPIC)
    files = written(first, 0, 4)
    ParquetTable(tmp_path, TOPIC)

    with pytest.raises(ConfigError, match="another archive was started"):
        first.commit(files, {0: 4}, NOON)

    assert ParquetTable(tmp_path, TOPIC).next_offset(0) is None


@pytest.mark.parametrize("table_format", FORMATS)
def test_small_files_are_merged_and_the_records_stay(table_format: str, tmp_path: Path) -> None:
    table = open_table(tmp_path, table_format, TOPIC)
    for start in range(0, 40, 10):
        table.commit(written(table, start, start + 10), {0: start + 10}, NOON)

    assert open_table(tmp_path, table_format, None).compact(1 << 20, NOON) == (4, 1)

    again = open_table(tmp_path, table_format, TOPIC)
    assert records(again) == offsets(range(40))
    assert again.next_offset(0) == 40
    assert again.compact(1 << 20, NOON) == (0, 0)


def test_a_merged_file_has_its_records_in_order(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path, TOPIC)
    for start in (10, 0, 20):
        table.commit(written(table, start, start + 10), {0: 30}, NOON)
    table.compact(1 << 20, NOON)

    [file] = tmp_path.glob("date=*/*.parquet")
    assert pq.ParquetFile(str(file)).read()["offset"].to_pylist() == list(range(30))


def test_files_are_merged_up_to_the_size_limit(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path, TOPIC)
    for start in range(0, 40, 10):
        table.commit(written(table, start, start + 10), {0: start + 10}, NOON)
    size = max(each.stat().st_size for each in tmp_path.glob("date=*/*.parquet"))

    assert table.compact(2 * size + 10, NOON) == (4, 2)
    assert table.compact(size, NOON) == (0, 0)  # none is smaller than half of it


def test_a_commit_of_another_version_is_refused(tmp_path: Path) -> None:
    ParquetTable(tmp_path, TOPIC).commit([], {0: 1}, NOON)
    [commit] = (tmp_path / "_polylog").glob("*.json")
    commit.write_text(json.dumps({"version": 2}))

    with pytest.raises(ConfigError, match="not a commit of this version"):
        ParquetTable(tmp_path, TOPIC)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected delta or parquet"):
        open_table(tmp_path, "iceberg", TOPIC)
