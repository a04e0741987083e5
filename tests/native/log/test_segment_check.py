"""Every byte of a segment is checked: faults, their positions, and the file's hash."""

import random
from pathlib import Path

import pytest
import xxhash

from broker._native.kernel.checksum import crc32c
from broker._native.log.segment_check import Damage, SegmentCheck, digest_of
from broker.codec import encode
from broker.model.errors import StorageError, Truncated
from broker.model.limits import SEGMENT_CHECK_PIECE_BYTES
from tests.support.batches import header
from tests.support.native_log import records
from tests.support.segment_files import segment_files, stored, write, write_ascending


def checked(file: Path, *, step: int = 1 << 30, is_active: bool = False) -> SegmentCheck:
    """Return the finished check of a segment with its indexes."""
    contents = [
        file.with_suffix(suffix).read_bytes() if file.with_suffix(suffix).exists() else b""
        for suffix in (".index", ".timeindex", ".txnindex")
    ]
    check = SegmentCheck(
        file,
        int(file.stem),
        index=contents[0],
        time_index=contents[1],
        aborted=contents[2],
        is_active=is_active,
    )
    while check.step(step):
        continue
    return check


def flip(file: Path, position: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The first of some segments, of 19 batches of 1,051 bytes."""
    return segment_files(write_ascending(tmp_path))[0]


def test_an_intact_segment_has_no_damage_and_its_counts_are_those_of_its_batches(
    first: Path,
) -> None:
    check = checked(first)
    batches = [each for each in stored(first.parent) if each.segment == 0]
    assert (check.damages, check.index_errors, check.tail_bytes) == ([], (0, 0, 0), 0)
    assert (check.batches, check.records) == (len(batches), 10 * len(batches))
    assert (check.first_offset, check.next_offset) == (0, batches[-1].last_offset + 1)
    assert check.max_timestamp == batches[-1].max_timestamp


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 240, 241, 1024, 1025, 1088, 70_000])
def test_the_digest_of_bytes_is_xxh3_of_64_bits(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert digest_of(data) == xxhash.xxh3_64_intdigest(data)


@pytest.mark.parametrize(
    "size",
    [61, 64, 128, 240, 241, SEGMENT_CHECK_PIECE_BYTES - 1, SEGMENT_CHECK_PIECE_BYTES,
     SEGMENT_CHECK_PIECE_BYTES + 1, SEGMENT_CHECK_PIECE_BYTES + 64, 3 * SEGMENT_CHECK_PIECE_BYTES],
)  # fmt: skip
def test_the_digest_of_a_file_is_that_of_its_bytes_however_it_was_read(
    tmp_path: Path, size: int
) -> None:
    file = tmp_path / f"{0:020}.log"
    data = random.Random(size).randbytes(size)
    file.write_bytes(data)
    check = SegmentCheck(file, 0)
    while check.step(100):
        continue
    assert check.digest == xxhash.xxh3_64_intdigest(data)


def test_batches_across_read_pieces_are_intact(tmp_path: Path) -> None:
    batches = [records(1, size=size) for size in (300_000, 250_000, 1, 40, 700_000, 20, 90_000)]
    [file] = segment_files(write(tmp_path, batches))
    check = checked(file)
    assert (check.damages, check.batches) == ([], len(batches))


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (8, "a length that no batch here has"),
        (11, "a CRC that does not fit"),
        (16, "a magic other than 2"),
        (17, "a CRC that does not fit"),
        (22, "a CRC that does not fit"),
        (23, "a CRC that does not fit"),
        (60, "a CRC that does not fit"),
        (61, "a CRC that does not fit"),
    ],
)
def test_a_flip_anywhere_except_in_offset_and_epoch_damages_exactly_its_batch(
    first: Path, place: int, reason: str
) -> None:
    batch = stored(first.parent)[7]
    flip(first, batch.position + place, 6)
    check = checked(first)
    end = batch.position + len(batch.data)
    [damage] = check.damages
    assert damage[:4] == (batch.position, end, batch.base_offset, batch.last_offset + 1)
    assert damage.reason in {reason, "a batch cut short", "a length that no batch here has"}
    assert check.batches == 18
    assert check.index_errors == (0, 0, 0)


@pytest.mark.parametrize(("place", "bit"), [(7, 0), (7, 4), (5, 0), (0, 7), (0, 6)])
def test_an_offset_out_of_order_damages_its_own_batch(first: Path, place: int, bit: int) -> None:
    batch = stored(first.parent)[7]
    flip(first, batch.position + place, bit)
    [damage] = checked(first).damages
    assert damage.position <= batch.position < damage.end_position
    assert damage.end_position - damage.position <= 2 * len(batch.data)
    assert damage.offset <= batch.base_offset < damage.end_offset


def test_a_leader_epoch_above_the_following_ones_damages_its_batch(first: Path) -> None:
    batch = stored(first.parent)[7]
    flip(first, batch.position + 15, 1)
    assert checked(first).damages == [
        Damage(
            batch.position,
            batch.position + len(batch.data),
            batch.base_offset,
            batch.last_offset + 1,
            "a leader epoch that falls",
        )
    ]


def assert_only_it_is_damaged(tmp_path: Path, value: bytes) -> None:
    """Damage a batch with this value between others: the damage ends where the batch does."""
    batches = [records(1, size=90) for _ in range(9)]
    [outer] = encode([value], timestamp_ms=5)
    [file] = segment_files(write(tmp_path, [*batches, outer, *batches]))
    batch = stored(file.parent)[9]
    flip(file, batch.position + 8, 6)
    [damage] = checked(file).damages
    assert (damage.position, damage.end_position) == (
        batch.position,
        batch.position + len(batch.data),
    )


def test_bytes_of_a_batch_within_a_record_are_not_taken_for_a_batch(tmp_path: Path) -> None:
    inner = bytearray(records(1))
    inner[7] = 30  # an offset that would be valid
    assert_only_it_is_damaged(tmp_path, bytes(inner) * 3)


def test_adjacent_damaged_batches_are_one_damage(first: Path) -> None:
    one, other = stored(first.parent)[5:7]
    flip(first, one.position + 70)
    flip(first, other.position + 70)
    [damage] = checked(first).damages
    assert (damage.position, damage.end_position) == (one.position, other.position + 1051)
    assert (damage.offset, damage.end_offset) == (one.base_offset, other.last_offset + 1)


def test_a_valid_batch_after_a_damaged_one_is_found_by_its_length_alone(first: Path) -> None:
    """The headers after it do not lead to the end of the file, and there is no index."""
    one, valid, other = stored(first.parent)[5:8]
    flip(first, one.position + 70)
    flip(first, other.position + 8, 6)
    first.with_suffix(".index").unlink()
    check = checked(first)
    assert [damage.position for damage in check.damages] == [one.position, other.position]
    assert (check.damages[0].end_position, check.batches) == (valid.position, 17)


def test_a_valid_batch_before_a_truncated_one_is_found_by_the_index(tmp_path: Path) -> None:
    """The index has every second batch, also the truncated one at the end."""
    batches = [records(10, size=90) for _ in range(9)]
    [file] = segment_files(write(tmp_path, batches, index_interval_bytes=1_500))
    one, valid, last = stored(file.parent)[6:]
    flip(file, one.position + 8, 6)
    file.write_bytes(file.read_bytes()[:-30])
    check = checked(file)
    assert [damage.position for damage in check.damages] == [one.position, last.position]
    assert (check.damages[0].end_position, check.batches) == (valid.position, 7)


@pytest.mark.parametrize("place", [5, -1])
def test_bytes_between_two_batches_are_a_damage_without_offsets(first: Path, place: int) -> None:
    batch = [each for each in stored(first.parent) if each.segment == 0][place]
    data = first.read_bytes()
    first.write_bytes(data[: batch.position] + b"\xff" * 100 + data[batch.position :])
    check = checked(first)
    [damage] = check.damages
    assert damage[:4] == (
        batch.position,
        batch.position + 100,
        batch.base_offset,
        batch.base_offset,
    )
    assert check.batches == 19


def test_an_empty_batch_after_a_damaged_one_is_valid(first: Path) -> None:
    """Compaction leaves one without records for the last sequence of a producer."""
    one, other = stored(first.parent)[5:7]
    empty = bytearray(other.data[:61])
    empty[8:12] = (49).to_bytes(4)
    empty[57:61] = bytes(4)
    empty[17:21] = crc32c(empty[21:]).to_bytes(4)
    data = first.read_bytes()
    first.write_bytes(data[: other.position] + empty + data[other.position + len(other.data) :])
    flip(first, one.position + 70)
    [damage] = checked(first).damages
    assert damage[:4] == (
        one.position,
        other.position,
        one.base_offset,
        other.base_offset,
    )


@pytest.mark.timeout(60)
def test_a_length_that_leads_backwards_ends_the_search_for_a_batch(tmp_path: Path) -> None:
    inner = bytearray(records(1))
    inner[7] = 30  # an offset that would be valid
    backwards = inner[:8] + (-12).to_bytes(4, signed=True) + inner[12:]
    assert_only_it_is_damaged(tmp_path, bytes(inner + backwards))


def test_a_damage_at_the_end_has_no_end_offset(first: Path) -> None:
    flip(first, first.stat().st_size - 1)
    [damage] = checked(first).damages
    assert (damage.end_position, damage.end_offset) == (first.stat().st_size, -1)


def test_a_truncated_closed_segment_is_damaged_at_its_end(first: Path) -> None:
    size = first.stat().st_size
    for cut in (1, 1_000, 1_051 - 30):
        first.write_bytes(first.read_bytes()[: size - cut])
        [damage] = checked(first).damages
        assert damage.position == size - 1_051
        assert damage.reason == "a batch cut short"


def test_zeros_at_the_end_are_reserved_space_and_not_damage(first: Path) -> None:
    with first.open("ab") as file:
        file.write(bytes(100_000))
    check = checked(first)
    assert (check.damages, check.zero_bytes) == ([], 100_000)


def test_an_active_segment_may_end_in_an_incomplete_batch(first: Path) -> None:
    with first.open("ab") as file:
        file.write(records(3)[:-1])
    check = checked(first, is_active=True)
    assert (check.damages, check.tail_bytes) == ([], len(records(3)) - 1)
    assert len(checked(first).damages) == 1


@pytest.mark.parametrize(
    ("suffix", "position", "expected"), [(".index", 7, 0), (".index", 11, 0), (".timeindex", 7, 1)]
)
def test_an_index_entry_that_matches_no_batch_is_counted(
    first: Path, suffix: str, position: int, expected: int
) -> None:
    flip(first.with_suffix(suffix), position)
    check = checked(first)
    assert check.damages == []
    assert [bool(each) for each in check.index_errors] == [place == expected for place in range(3)]


def test_a_file_truncated_while_it_is_read_is_reported_as_truncated(first: Path) -> None:
    check = SegmentCheck(first, 0)
    first.write_bytes(b"")
    with pytest.raises(Truncated):
        check.step(1)


def test_a_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        SegmentCheck(tmp_path / f"{0:020}.log", 0)


def test_the_header_of_a_stored_batch_is_unchanged(first: Path) -> None:
    """The layout in which the tests above flip bits."""
    assert header(first.read_bytes()).size == 1_051
