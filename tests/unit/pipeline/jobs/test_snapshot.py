"""A snapshot while the files change at the worst possible moment."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker import segments
from broker._native.kernel import file_ops
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, Found
from broker.codec import decode_columns
from broker.model.errors import SnapshotFailed
from broker.pipeline.jobs import snapshot
from broker.pipeline.segments import manifest
from broker.pipeline.segments.manifest import PartitionEntry
from broker.storage.checkpoints import checkpoint
from tests.support.segment_files import segment_files, write_ascending

TOPIC_ID = b"0123456789abcdef"
RECORDS = 500


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data directory with one topic of three segments, and a broker that knows it."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_ascending(folder)
    checkpoint.write_partition_metadata(folder / "topic-0", TOPIC_ID)
    known = {"topic": Topic("topic", TOPIC_ID.hex(), (0,), is_internal=False)}
    monkeypatch.setattr(Cluster, "existing_topics", lambda _: known)
    partition = {"partition_index": 0, "leader_epoch": 4}
    metadata = {"topics": [{"name": "topic", "partitions": [partition]}]}
    monkeypatch.setattr(Cluster, "metadata", lambda *_: metadata)
    monkeypatch.setattr(
        snapshot,
        "list_offsets",
        lambda _cluster, wanted, **_: {
            key: Found(0 if asked == EARLIEST else RECORDS, -1) for key, asked in wanted.items()
        },
    )
    monkeypatch.setattr(snapshot, "CLIENT_RETRY_SECONDS", 0)
    return folder


def take(data_dir: Path) -> PartitionEntry:
    target = data_dir.parent / "snapshot"
    assert snapshot.create(target, data_dir, "127.0.0.1:1").is_well
    [entry] = manifest.read(target).partitions
    return entry


def offsets(data_dir: Path) -> list[int]:
    """Return the offsets in the snapshot."""
    with segments.open(data_dir.parent / "snapshot" / "topic-0") as log:
        found = [decode_columns(bytes(each.data)) for each in log.chunks(end_offset=RECORDS)]
    return [offset for each in found for offset in memoryview(each.column("offset"))]


def once_linked(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], None]
) -> list[str]:
    """Run something right after a file was linked for the first time; list all links."""
    linked: list[str] = []
    link = os.link

    def then_change(source: Path, target: Path) -> None:
        link(source, target)
        linked.append(source.name)
        if linked.count(name) == 1 and source.name == name:
            change()

    monkeypatch.setattr(os, "link", then_change)
    return linked


def install(data_dir: Path) -> None:
    """Merge the records of the first two segments into one file, as a compaction does first."""
    first, second, *_ = segment_files(data_dir / "topic-0")
    merged = first.with_suffix(".log.cleaned")
    merged.write_bytes(first.read_bytes() + second.read_bytes())
    merged.rename(first)


def finish(data_dir: Path) -> None:
    """Remove the second segment, as a compaction does then."""
    second = segment_files(data_dir / "topic-0")[1]
    for suffix in (".log", ".index", ".timeindex"):
        second.with_suffix(suffix).unlink()


def merge(data_dir: Path) -> None:
    """Do both at once."""
    install(data_dir)
    finish(data_dir)


def test_unchanged_files_are_linked_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = once_linked(monkeypatch, "", lambda: None)

    entry = take(data_dir)

    assert len(linked) == len(set(linked))
    assert entry.leader_epoch == 4
    assert offsets(data_dir) == list(range(RECORDS))


@pytest.mark.parametrize("place", [0, 1])
def test_a_compaction_between_two_links_leaves_neither_gaps_nor_duplicates(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    file = segment_files(data_dir / "topic-0")[place]
    linked = once_linked(monkeypatch, file.name, lambda: merge(data_dir))

    entry = take(data_dir)

    assert linked.count("00000000000000000000.log") == 2
    assert len(entry.segments) == 2
    assert offsets(data_dir) == list(range(RECORDS))


def test_a_compaction_around_all_links_leaves_no_duplicates(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folder is listed before the compaction, the first segment is linked when it is new, the
    # second while it still exists, and the folder is listed again when no trace is left.
    second = segment_files(data_dir / "topic-0")[1]
    list_folder = file_ops.list_folder
    listings: list[Path] = []

    def then_install(folder: Path) -> list[str]:
        names = list_folder(folder)
        listings.append(folder)
        if len(listings) == 1:
            install(data_dir)
        return names

    monkeypatch.setattr(file_ops, "list_folder", then_install)
    once_linked(monkeypatch, second.with_suffix(".timeindex").name, lambda: finish(data_dir))

    assert len(take(data_dir).segments) == 2
    assert offsets(data_dir) == list(range(RECORDS))


def test_a_snapshot_waits_for_a_swap_in_progress(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = data_dir / "topic-0" / "00000000000000000000.swap"
    swap.touch()
    monkeypatch.setattr("time.sleep", lambda _: swap.unlink())

    take(data_dir)

    assert offsets(data_dir) == list(range(RECORDS))


def test_a_folder_that_changes_constantly_ends_the_snapshot(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOT_TRIES", 3)
    (data_dir / "topic-0" / "00000000000000000000.swap").touch()

    with pytest.raises(SnapshotFailed, match="a compaction is running, after 3 tries"):
        take(data_dir)

    assert not (data_dir.parent / "snapshot").exists()


def test_a_log_that_ends_below_the_high_watermark_belongs_to_another_broker(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOT_TRIES", 2)
    last = segment_files(data_dir / "topic-0")[-1]
    os.truncate(last, last.stat().st_size - 1)

    with pytest.raises(SnapshotFailed, match="ends at offset 490, the broker's at 500"):
        take(data_dir)


def test_a_damaged_segment_is_in_the_snapshot_and_reported(data_dir: Path) -> None:
    file = segment_files(data_dir / "topic-0")[0]
    content = bytearray(file.read_bytes())
    content[-1000:] = bytes(b ^ 0xFF for b in content[-1000:])
    file.write_bytes(content)

    report = snapshot.create(data_dir.parent / "snapshot", data_dir, "127.0.0.1:1")

    assert not report.is_well
    assert file.name in report.problems[0]
