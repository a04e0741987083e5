"""The audit of intact and of damaged segments."""

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from broker.codec import encode
from broker.model.errors import ConfigError, SegmentGone
from broker.model.report import Report
from broker.pipeline.jobs.audit import audit
from broker.pipeline.segments import integrity
from broker.pipeline.segments.integrity import SegmentFacts, SegmentIntegrity
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from tests.support.manual_clock import ManualClock
from tests.support.native_log import placed
from tests.support.segment_files import segment_files, stored, write_ascending

Row = dict[str, Any]


def data_dir(path: Path) -> Path:
    """Return the folder of a log of 500 records in three segments, all of them closed."""
    path.mkdir(exist_ok=True)
    folder = write_ascending(path)
    closed(path)
    return folder


def closed(path: Path) -> None:
    checkpoint.write_properties(path / text_files.META_PROPERTIES, {"version": "1"})
    checkpoint.write_clean_shutdown(path)


def rows(report: Report) -> list[Row]:
    return [dict(zip(report.columns, row, strict=True)) for row in report.rows]


def faults(row: Row) -> set[str]:
    """Return the names of the counts that are not zero."""
    names = [
        *("crc_errors", "damaged_batches", "gaps", "missing_offsets", "disorders"),
        *("late_batches", "sequence_gaps", "sequence_repeats", "index_errors"),
        "unreadable_bytes",
    ]
    return {name for name in names if row[name]}


def change(file: Path, position: int, mask: int = 0xFF) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= mask
    file.write_bytes(content)


def segment_of(path: Path, batches: list[bytes], *offsets: int) -> None:
    """Write one segment of batches, consecutive unless offsets are given."""
    folder = path / "topic-0"
    folder.mkdir()
    content, offset = b"", 0
    for number, batch in enumerate(batches):
        offset = offsets[number] if offsets else offset
        content += placed(batch, offset)
        offset += int.from_bytes(batch[57:61])
    (folder / f"{0:020}.log").write_bytes(content)
    closed(path)


def numbered(sequence: int, count: int = 2, epoch: int = 0, time: int = 5) -> bytes:
    """Return a batch of a producer."""
    [batch] = encode(
        [b"v"] * count,
        timestamp_ms=time,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
        leader_epoch=0,
    )
    return batch


def test_an_intact_log_has_a_row_per_segment_and_no_problem(tmp_path: Path) -> None:
    data_dir(tmp_path)

    report = audit(tmp_path, clock=ManualClock())

    assert report.is_well
    found = rows(report)
    assert [(each["base_offset"], each["next_offset"]) for each in found] == [
        (0, 190),
        (190, 380),
        (380, 500),
    ]
    assert [faults(each) for each in found] == [set()] * 3
    assert (found[0]["topic"], found[0]["partition"]) == ("topic", 0)
    assert found[0]["oldest"] == "1970-01-01 00:00:00.000"
    assert found[0]["newest"] == "1970-01-01 00:00:00.018"
    assert report.totals["records"] == 500
    assert report.totals["bytes"] == sum(len(each.data) for each in stored(tmp_path / "topic-0"))
    assert report.totals["faulty_segments"] == 0


def test_a_flipped_byte_of_a_record_is_a_crc_error(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    change(segment_files(folder)[1], 5_000)

    report = audit(tmp_path)

    assert not report.is_well
    assert [each["crc_errors"] for each in rows(report)] == [0, 1, 0]
    assert "1 batches with a wrong CRC" in report.problems[0]


def test_a_truncated_segment_has_missing_offsets(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    file = segment_files(folder)[0]
    file.write_bytes(file.read_bytes()[: -1_051 - 10])

    [first, *_] = rows(audit(tmp_path))

    assert first["next_offset"] == 170
    assert first["missing_offsets"] == 20
    assert first["unreadable_bytes"] == 1_041


def test_offsets_removed_by_compaction_are_not_a_problem(tmp_path: Path) -> None:
    segment_of(tmp_path, [numbered(0), numbered(6)], 0, 8)
    checkpoint.write_offsets(tmp_path / text_files.CLEANER_OFFSETS, {("topic", 0): 10})

    report = audit(tmp_path)

    assert faults(rows(report)[0]) == {"gaps", "missing_offsets", "sequence_gaps"}
    assert report.is_well


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([numbered(0), numbered(2), numbered(4)], set()),
        ([numbered(0), numbered(4)], {"sequence_gaps"}),
        ([numbered(0), numbered(0)], {"sequence_repeats"}),
        ([numbered(2), numbered(0, epoch=1), numbered(2, epoch=1)], set()),
        ([numbered((1 << 31) - 2), numbered(0)], set()),
        ([numbered(0, time=9), numbered(2, time=8)], {"late_batches"}),
    ],
)
def test_sequences_and_timestamps_are_checked(
    tmp_path: Path, batches: list[bytes], expected: set[str]
) -> None:
    segment_of(tmp_path, batches)

    assert faults(rows(audit(tmp_path))[0]) == expected


def test_a_batch_with_repeated_offsets_is_out_of_order(tmp_path: Path) -> None:
    segment_of(tmp_path, [numbered(0, count=4), numbered(4)], 0, 2)

    assert "disorders" in faults(rows(audit(tmp_path))[0])


@pytest.mark.parametrize(("suffix", "width"), [(".index", 8), (".timeindex", 12)])
def test_a_wrong_index_entry_is_counted(tmp_path: Path, suffix: str, width: int) -> None:
    folder = data_dir(tmp_path)
    file = segment_files(folder)[0].with_suffix(suffix)
    assert file.stat().st_size >= 3 * width
    change(file, 2 * width - 1, 0x40)

    assert [each["index_errors"] for each in rows(audit(tmp_path))] == [1, 0, 0]


def test_offsets_missing_between_two_segments_are_reported(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    for file in folder.glob("00000000000000000190.*"):
        file.unlink()

    report = audit(tmp_path)

    assert not report.is_well
    assert rows(report)[0]["missing_offsets"] == 190


def test_every_flipped_bit_of_a_segment_is_reported(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    some = random.Random(3)
    files = segment_files(folder)
    epochs = {
        (number, each.position + byte)
        for number, file in enumerate(files)
        for each in stored(folder)
        if each.segment == int(file.stem)
        for byte in range(12, 16)  # the leader epoch, which no checksum covers
    }
    for _ in range(150):
        number = some.randrange(len(files))
        content = files[number].read_bytes()
        position = some.randrange(len(content))
        if (number, position) in epochs:
            continue
        change(files[number], position, 1 << some.randrange(8))

        assert not audit(tmp_path).is_well, (files[number], position)
        files[number].write_bytes(content)


def test_a_missing_topic_is_named(tmp_path: Path) -> None:
    data_dir(tmp_path)

    with pytest.raises(ConfigError, match="no closed segment of nosuch"):
        audit(tmp_path, topics=["nosuch"])


def test_an_index_of_zeros_has_no_entries(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    segment_files(folder)[0].with_suffix(".index").write_bytes(struct.pack(">ii", 0, 0) * 100)

    assert audit(tmp_path).is_well


def test_a_segment_deleted_before_it_was_checked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_dir(tmp_path)
    second = segment_files(folder)[1]

    def before(facts: SegmentFacts) -> SegmentIntegrity:
        second.unlink(missing_ok=True)
        return integrity.audit_segment(facts)

    monkeypatch.setattr("broker.pipeline.jobs.audit.audit_segment", before)

    with pytest.raises(SegmentGone, match=f"{second}: the segment is gone"):
        audit(tmp_path, workers=1)
