"""The removal of a segment's files."""

from pathlib import Path

from broker.segments.names import LOG, SEGMENT_SUFFIXES, SNAPSHOT, file_name
from broker.storage.files.segment_files import mark_deleted, remove_deleted


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_of_a_segment_are_renamed_and_later_removed(tmp_path: Path) -> None:
    for base in (0, 7):
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT):
            (tmp_path / file_name(base, suffix)).touch()

    mark_deleted(tmp_path, [0])

    kept = sorted(file_name(7, suffix) for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT))
    assert names(tmp_path) == sorted(
        [f"{file_name(0, suffix)}.deleted" for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT)] + kept
    )
    remove_deleted(tmp_path, [0])
    assert names(tmp_path) == kept


def test_a_segment_without_index_files_is_handled(tmp_path: Path) -> None:
    (tmp_path / file_name(0, LOG)).touch()

    mark_deleted(tmp_path, [0])
    remove_deleted(tmp_path, [0])

    assert names(tmp_path) == []


def test_a_missing_folder_has_nothing_to_remove(tmp_path: Path) -> None:
    remove_deleted(tmp_path / "gone", [0])
