"""A log's files as rows, whatever damage they have."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from broker import codec, segments
from broker.codec import control_records
from broker.pipeline.decoding import Decoder, Selection
from broker.pipeline.segments import scan
from broker.pipeline.segments.scan import Aborted, Damage, ScanRange
from tests.support.batches import batch_of, header
from tests.support.native_log import placed
from tests.support.segment_files import batches_of, segment_files, stored, write, write_ascending

RECORDS = 500
COLUMNS = ("offset", "value")
Rows = dict[int, bytes | None]


def read(
    folder: Path,
    start: int = 0,
    end: int = RECORDS,
    aborted: tuple[Aborted, ...] | None = None,
    chunk_bytes: int = 8_000,
    *,
    may_have_gaps: bool = False,
) -> tuple[Rows, list[Damage]]:
    """Return the values by offset, each once and in order, and the damage."""
    rows: list[tuple[int, bytes | None]] = []
    damages: list[Damage] = []
    decoder = Decoder("topic", 0, Selection(COLUMNS))
    with segments.open(folder) as log:
        ends = None if may_have_gaps else tuple(pairwise((*log.base_offsets, end)))
        wanted = ScanRange(start, end, aborted, ends)
        for chunk in scan.chunks(log, wanted, chunk_bytes):
            if isinstance(chunk, Damage):
                damages.append(chunk)
                continue
            for found in scan.rows(log, chunk, wanted, decoder):
                if isinstance(found, Damage):
                    damages.append(found)
                else:
                    columns = found.to_pydict()
                    rows += zip(columns["offset"], columns["value"], strict=True)
    offsets = [offset for offset, _ in rows]
    assert len(set(offsets)) == len(offsets)
    return dict(rows), damages


def change(file: Path, position: int, mask: int = 0xFF) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= mask
    file.write_bytes(content)


def lost(damages: list[Damage]) -> set[int]:
    return {offset for each in damages for offset in range(each.offset, each.next_offset)}


def test_an_intact_log_has_all_its_records_and_no_damage(tmp_path: Path) -> None:
    rows, damages = read(write_ascending(tmp_path))

    assert list(rows) == list(range(RECORDS))
    assert damages == []


@pytest.mark.parametrize(("start", "end"), [(0, 190), (5, 190), (190, 500), (17, 380), (63, 70)])
def test_a_range_has_only_its_own_records(tmp_path: Path, start: int, end: int) -> None:
    rows, damages = read(write_ascending(tmp_path), start, end)

    assert list(rows) == list(range(start, end))
    assert damages == []


def test_a_flipped_byte_of_a_record_loses_only_its_batch(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    batch = stored(folder)[7]
    file = segment_files(folder)[0]
    change(file, batch.position + 100)

    rows, damages = read(folder)

    assert lost(damages) == set(range(70, 80))
    assert list(rows) == [each for each in range(RECORDS) if not 70 <= each < 80]
    [damage] = damages
    assert damage.position == batch.position
    assert damage.segment == 0
    assert "CRC" in damage.reason


def test_a_flipped_length_loses_the_records_up_to_the_next_indexed_batch(
    tmp_path: Path,
) -> None:
    folder = write_ascending(tmp_path)
    batch = stored(folder)[4]
    change(segment_files(folder)[0], batch.position + 9)

    rows, damages = read(folder)

    assert set(rows) | lost(damages) == set(range(RECORDS))
    assert set(rows) & lost(damages) == set()
    assert 40 in lost(damages)
    assert len(lost(damages)) <= 40  # an index entry covers 2,000 bytes here


def test_a_truncated_segment_loses_its_end(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    first, second, *_ = segment_files(folder)
    content = first.read_bytes()
    first.write_bytes(content[:-1500])

    rows, damages = read(folder)

    assert set(rows) | lost(damages) == set(range(RECORDS))
    assert lost(damages) == set(range(170, int(second.stem)))


def test_an_empty_segment_loses_all_its_records(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    files = segment_files(folder)
    files[1].write_bytes(b"")

    rows, damages = read(folder)

    assert lost(damages) == set(range(int(files[1].stem), int(files[2].stem)))
    assert set(rows) == set(range(RECORDS)) - lost(damages)


@pytest.mark.parametrize("bit", [0x01, 0x10, 0x80])
@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("number", [0, 6, 18, 30, 49])
def test_a_flipped_base_offset_is_reported(
    tmp_path: Path, number: int, byte: int, bit: int
) -> None:
    folder = write_ascending(tmp_path)
    whole, _ = read(folder)
    batch = stored(folder)[number]
    change(folder / f"{batch.segment:020}.log", batch.position + byte, bit)

    rows, damages = read(folder)

    assert damages
    assert set(rows.values()) <= set(whole.values())


def test_every_flipped_bit_is_reported_also_where_gaps_are_allowed(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path, count=30)
    end = 300
    whole, _ = read(folder, end=end)
    files = segment_files(folder)
    some = random.Random(11)
    for _ in range(200):
        file = some.choice(files)
        content = file.read_bytes()
        change(file, some.randrange(len(content)), 1 << some.randrange(8))

        rows, damages = read(folder, end=end, may_have_gaps=True)

        assert rows == whole or damages
        file.write_bytes(content)


def compact(folder: Path) -> set[int]:
    """Remove batches of the first two segments, in the middle and at the end; return the rest."""
    left = set(range(RECORDS))
    for file in segment_files(folder)[:2]:
        found = batches_of(file)
        gone = [found[3], found[-2], found[-1]]
        file.write_bytes(b"".join(each.data for each in found if each not in gone))
        for suffix in (".index", ".timeindex"):
            file.with_suffix(suffix).write_bytes(b"")
        for each in gone:
            left -= set(range(each.base_offset, each.last_offset + 1))
    return left


@pytest.mark.parametrize("end", [190, 380, 450, 500])
@pytest.mark.parametrize("chunk_bytes", [1, 3_000, 1 << 20])
def test_offsets_removed_by_compaction_are_not_damage(
    tmp_path: Path, end: int, chunk_bytes: int
) -> None:
    folder = write_ascending(tmp_path)
    left = compact(folder)

    rows, damages = read(folder, 0, end, chunk_bytes=chunk_bytes, may_have_gaps=True)

    assert damages == []
    assert set(rows) == {each for each in left if each < end}


def test_the_same_gaps_are_damage_where_nothing_was_compacted(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    left = compact(folder)

    _, damages = read(folder, chunk_bytes=1)

    assert lost(damages) == set(range(RECORDS)) - left


def test_every_flipped_bit_is_reported(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path, count=30)
    end = 300
    whole, _ = read(folder, end=end)
    files = segment_files(folder)
    contents = [each.read_bytes() for each in files]
    some = random.Random(9)
    for _ in range(400):
        number = some.randrange(len(files))
        position = some.randrange(len(contents[number]))
        changed = bytearray(contents[number])
        changed[position] ^= 1 << some.randrange(8)
        files[number].write_bytes(changed)

        rows, damages = read(folder, end=end)

        where = f"byte {position} of {files[number].name}"
        assert rows == whole or damages, where
        assert set(rows.values()) <= set(whole.values()), where
        if not _is_in_offset(files[number], contents[number], position):
            assert set(rows) | lost(damages) == set(whole), where
            assert all(whole[offset] == value for offset, value in rows.items()), where
        files[number].write_bytes(contents[number])


def _is_in_offset(file: Path, content: bytes, position: int) -> bool:
    """Return whether a byte is in a base offset, which no checksum covers."""
    file.write_bytes(content)
    return any(each.position <= position < each.position + 8 for each in batches_of(file))


def test_every_truncation_is_reported(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path, count=30)
    end = 300
    some = random.Random(10)
    files = segment_files(folder)
    contents = [each.read_bytes() for each in files]
    for _ in range(60):
        number = some.randrange(len(files))
        files[number].write_bytes(contents[number][: some.randrange(len(contents[number]))])

        rows, damages = read(folder, end=end)

        assert set(rows) | lost(damages) == set(range(end))
        assert set(rows) & lost(damages) == set()
        files[number].write_bytes(contents[number])


@pytest.mark.parametrize("codec_name", ["gzip", "lz4", "snappy", "zstd"])
def test_compressed_batches_are_read_and_their_damage_reported(
    tmp_path: Path, codec_name: str
) -> None:
    some = random.Random(4)
    batches = [
        b"".join(
            codec.encode(
                [(b"k", some.randbytes(50) + bytes(200)) for _ in range(10)],
                timestamp_ms=1,
                compression=codec_name,
                leader_epoch=0,
            )
        )
        for _ in range(40)
    ]
    folder = write(tmp_path, batches, segment_bytes_max=10_000, index_interval_bytes=2_000)
    whole, _ = read(folder, end=400)
    assert list(whole) == list(range(400))
    batch = stored(folder)[11]
    change(folder / f"{batch.segment:020}.log", batch.position + 90)

    rows, damages = read(folder, end=400)

    assert lost(damages) == set(range(110, 120))
    assert set(rows) == set(whole) - lost(damages)


# ---- transactions ------------------------------------------------------------------------------


def transactional(values: list[bytes], producer_id: int) -> bytes:
    [batch] = codec.encode(
        values,
        timestamp_ms=1,
        is_transactional=True,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    return batch


def marker(producer_id: int, *, is_committed: bool) -> bytes:
    return control_records.encode_marker(
        control_records.Marker(producer_id, 0, is_committed, 0), leader_epoch=0, timestamp_ms=1
    )


def write_transactions(path: Path, *, is_last_open: bool = False) -> Path:
    """Write transactions of producers 7 and 8, the first one aborted, and plain records."""
    batches = [
        transactional([b"a0", b"a1"], 7),  # 0, 1
        batch_of([(None, b"p2", [])], 1),  # 2
        transactional([b"b3"], 8),  # 3
        marker(7, is_committed=False),  # 4
        transactional([b"a5"], 7),  # 5
        marker(7, is_committed=True),  # 6
        *([] if is_last_open else [marker(8, is_committed=True)]),  # 7
        batch_of([(None, b"p", [])], 1),
    ]
    folder = path / "topic-0"
    folder.mkdir()
    content, offset = b"", 0
    for batch in batches:
        content += placed(batch, offset)
        offset += header(batch).record_count
    (folder / f"{0:020}.log").write_bytes(content)
    return folder


ABORTED = (Aborted(7, 0, 4),)


@pytest.mark.parametrize("chunk_bytes", [1, 100, 200, 300, 8_000])
def test_aborted_records_are_omitted_and_records_committed_later_are_not(
    tmp_path: Path, chunk_bytes: int
) -> None:
    folder = write_transactions(tmp_path)

    rows, damages = read(folder, end=9, aborted=ABORTED, chunk_bytes=chunk_bytes)

    assert rows == {2: b"p2", 3: b"b3", 5: b"a5", 8: b"p"}
    assert damages == []


def test_uncommitted_records_are_read_on_request(tmp_path: Path) -> None:
    rows, _ = read(write_transactions(tmp_path), end=9)

    assert list(rows) == [0, 1, 2, 3, 5, 8]


@pytest.mark.parametrize("chunk_bytes", [1, 200, 8_000])
@pytest.mark.parametrize(("aborted", "count"), [(ABORTED, 4), (None, 6), ((), 6)])
def test_headers_count_the_records_read(
    tmp_path: Path, chunk_bytes: int, aborted: tuple[Aborted, ...] | None, count: int
) -> None:
    wanted = ScanRange(0, 9, aborted)
    with segments.open(write_transactions(tmp_path)) as log:
        counts = [
            scan.count_by_headers(each, wanted)
            for each in scan.chunks(log, wanted, chunk_bytes)
            if not isinstance(each, Damage)
        ]

    assert sum(each or 0 for each in counts) == count


def test_headers_alone_do_not_show_the_end_of_a_range_within_a_batch(tmp_path: Path) -> None:
    wanted = ScanRange(1, 9)
    with segments.open(write_transactions(tmp_path)) as log:
        first = next(scan.chunks(log, wanted, 10_000))
        assert not isinstance(first, Damage)

        assert scan.count_by_headers(first, wanted) is None


def test_the_last_stable_offset_is_the_start_of_the_first_open_transaction(tmp_path: Path) -> None:
    with segments.open(write_transactions(tmp_path, is_last_open=True)) as log:
        assert scan.stable_end(log, 0, 8, 100) == 3


def test_without_an_open_transaction_everything_is_stable(tmp_path: Path) -> None:
    with segments.open(write_transactions(tmp_path)) as log:
        assert scan.stable_end(log, 0, 9, 100) == 9
