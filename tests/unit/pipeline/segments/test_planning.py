"""Which files of a folder are read, and how they are split."""

import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from broker.model.errors import ConfigError, Corrupt, SegmentGone
from broker.pipeline.segments import manifest, planning
from broker.pipeline.segments.manifest import Manifest, PartitionEntry, SegmentEntry
from broker.pipeline.segments.planning import StoredPartition, pieces
from broker.pipeline.segments.scan import Aborted
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from tests.support.segment_files import segment_files, write_ascending

PIECE = 64 << 10


def every(_topic: str) -> bool:
    return True


def data_dir(path: Path) -> Path:
    """Return a data directory with one topic: segments at 0, 190 and 380, records up to 499."""
    path.mkdir()
    write_ascending(path)
    checkpoint.write_properties(path / text_files.META_PROPERTIES, {"version": "1"})
    return path


def found(folder: Path) -> StoredPartition:
    [partition] = planning.stored_partitions(folder, every)
    return partition


def test_the_closed_segments_of_a_data_directory_are_read(tmp_path: Path) -> None:
    partition = found(data_dir(tmp_path / "data"))

    assert partition[:2] == ("topic", 0)
    assert (partition.start_offset, partition.end_offset) == (0, 380)
    assert partition.ends == ((0, 190), (190, 380))


def test_after_a_clean_stop_the_last_segment_is_closed_too(tmp_path: Path) -> None:
    folder = data_dir(tmp_path / "data")
    checkpoint.write_clean_shutdown(folder)

    assert found(folder).end_offset == 500


def test_deleted_records_are_not_read(tmp_path: Path) -> None:
    folder = data_dir(tmp_path / "data")
    checkpoint.write_offsets(folder / text_files.LOG_START_OFFSETS, {("topic", 0): 77})

    assert found(folder).start_offset == 77


def test_in_a_compacted_topic_gaps_are_not_damage(tmp_path: Path) -> None:
    folder = data_dir(tmp_path / "data")
    checkpoint.write_offsets(folder / text_files.CLEANER_OFFSETS, {("topic", 0): 190})

    assert found(folder).ends is None


def test_a_partition_folder_can_be_named_directly(tmp_path: Path) -> None:
    assert found(write_ascending(tmp_path)).end_offset == 380


def test_the_manifest_of_a_snapshot_determines_what_is_read(tmp_path: Path) -> None:
    write_ascending(tmp_path)
    segments = (SegmentEntry(0, 190, 10, 10, "0"), SegmentEntry(190, 200, 10, 10, "0"))
    entry = PartitionEntry("topic", "", 0, 5, 200, 199, 0, segments)
    empty = entry._replace(partition=1, segments=())
    manifest.write(tmp_path, Manifest("b", 0, (entry, empty)))

    partition = found(tmp_path)

    ends, end_positions = ((0, 190), (190, 200)), {0: 10, 190: 10}
    assert partition == StoredPartition(
        "topic", 0, tmp_path / "topic-0", 5, 200, 199, ends, end_positions
    )


def test_folders_that_are_not_partitions_are_skipped(tmp_path: Path) -> None:
    folder = data_dir(tmp_path / "data")
    for name in ("topic-0.abc-delete", "other", "empty-3"):
        (folder / name).mkdir()

    assert found(folder).folder == folder / "topic-0"


def test_topics_are_selected_by_name(tmp_path: Path) -> None:
    assert planning.stored_partitions(data_dir(tmp_path / "data"), lambda _: False) == []


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_logs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConfigError, match="give a snapshot or a"):
        planning.stored_partitions(tmp_path / name, every)


def large(tmp_path: Path) -> StoredPartition:
    write_ascending(tmp_path, count=400, segment_bytes_max=150_000)
    folder = tmp_path / "topic-0"
    return StoredPartition("topic", 0, folder, 3, 3_990, 3_990, None, {})


@pytest.mark.parametrize("name", ["_polylog", "_delta_log"])
def test_for_an_archive_the_error_says_how_to_read_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "date=2026-11-22").mkdir()

    with pytest.raises(ConfigError, match=r"is an archive.* spark\.read\.parquet"):
        planning.stored_partitions(tmp_path, every)


def test_pieces_are_consecutive_and_of_similar_size(tmp_path: Path) -> None:
    cut = pieces(large(tmp_path), PIECE, is_committed=False)

    assert cut[0].start_offset == 3
    assert cut[-1].end_offset == 3_990
    assert all(one.end_offset == two.start_offset for one, two in pairwise(cut))
    counts = [each.end_offset - each.start_offset for each in cut]
    assert len(counts) == 7
    assert max(counts) < 1.2 * min(counts)


def test_a_small_log_is_one_piece(tmp_path: Path) -> None:
    [piece] = pieces(large(tmp_path), 1 << 30, is_committed=True)

    assert (piece.start_offset, piece.end_offset, piece.aborted) == (3, 3_990, ())


def test_without_indexes_a_piece_is_one_or_more_segments(tmp_path: Path) -> None:
    partition = large(tmp_path)
    for each in partition.folder.glob("*.index"):
        each.write_bytes(b"")

    cut = pieces(partition, PIECE, is_committed=False)

    assert cut[0].start_offset == 3
    assert cut[-1].end_offset == 3_990
    assert all(one.end_offset == two.start_offset for one, two in pairwise(cut))


def test_pieces_have_a_minimum_size(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1000 bytes per task"):
        pieces(large(tmp_path), 1_000, is_committed=False)


def test_each_piece_knows_the_aborted_transactions_that_overlap_it(tmp_path: Path) -> None:
    partition = large(tmp_path)
    rows = [(0, 7, 10, 3_000, 3_001), (0, 8, 100, 110, 111), (0, 9, 3_995, 3_999, 4_000)]
    last = segment_files(partition.folder)[-1]
    last.with_suffix(".txnindex").write_bytes(
        b"".join(struct.pack(">hqqqq", *row) for row in rows) + b"torn"
    )

    cut = pieces(partition, PIECE, is_committed=True)

    assert cut[0].aborted == (Aborted(7, 10, 3_000), Aborted(8, 100, 110))
    assert cut[1].aborted == (Aborted(7, 10, 3_000),)
    assert cut[-1].aborted == ()
    assert all(each.aborted is None for each in pieces(partition, PIECE, is_committed=False))


def test_a_damaged_index_of_aborted_transactions_is_reported_with_its_position(
    tmp_path: Path,
) -> None:
    partition = large(tmp_path)
    last = segment_files(partition.folder)[-1]
    last.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 5, 4, 6))

    with pytest.raises(Corrupt, match="txnindex: not an aborted transaction"):
        pieces(partition, PIECE, is_committed=True)


def test_a_log_deleted_before_it_was_split_is_named(tmp_path: Path) -> None:
    partition = large(tmp_path)
    shutil.rmtree(partition.folder)

    with pytest.raises(SegmentGone, match="topic-0: the log is gone"):
        pieces(partition, PIECE, is_committed=False)
