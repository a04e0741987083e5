"""Lists the partitions in a folder and divides them into tasks.

    a snapshot                     the segments of its manifest, up to the high watermark
    a data directory               every topic's closed segments: all but the last of a partition
    a partition's folder           its closed segments

After a clean stop of the broker the last segments are closed, too. Records before the log start
offset in the data directory's checkpoint (DeleteRecords) are not read.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from broker._native.kernel import file_ops
from broker.codec.packages import import_optional
from broker.model.errors import ConfigError, Corrupt, SegmentGone
from broker.model.limits import PIECE_BYTES_MIN, SCAN_CHUNK_BYTES
from broker.pipeline.segments import manifest
from broker.pipeline.segments.scan import Aborted, stable_end
from broker.segments import Log, Segment, text_files
from broker.segments.names import ABORTED, LOG, file_name, is_offset_file, partition_of

# src/_native/log/transaction_index.pyx has this layout.
_ABORTED_ENTRY: Final = [
    ("version", ">i2"),
    ("producer_id", ">i8"),
    ("first_offset", ">i8"),
    ("last_offset", ">i8"),
    ("last_stable_offset", ">i8"),
]
_ABORTED_BYTES: Final = 34
_ARCHIVES: Final = ("_polylog", "_delta_log")  # folders in an archive written by jobs/archive


class StoredPartition(NamedTuple):
    """A partition's files, and the range of offsets that may be read: [start, end).

    stable_offset is the last stable offset, or None if it is unknown. ends: the base offset of each
    segment and the offset after its last batch, or None if unknown; offsets missing before that are
    damage, offsets missing after it were removed by compaction. end_positions: the position after
    the last byte of a snapshot's segments, by base offset.
    """

    topic: str
    partition: int
    folder: Path
    start_offset: int
    end_offset: int
    stable_offset: int | None
    ends: tuple[tuple[int, int], ...] | None
    end_positions: dict[int, int]


class Piece(NamedTuple):
    """The part of a task: offsets [start, end) of one partition.

    `size` is its approximate size in bytes. `aborted`: the transactions to leave out, None for
    read_uncommitted. `ends`: as in StoredPartition.
    """

    topic: str
    partition: int
    folder: str
    start_offset: int
    end_offset: int
    size: int
    aborted: tuple[Aborted, ...] | None
    ends: tuple[tuple[int, int], ...] | None


def stored_partitions(folder: Path, is_wanted: Callable[[str], bool]) -> list[StoredPartition]:
    """Return the partitions in a folder whose topics are wanted, in order.

    Raises:
        ConfigError: it is neither a snapshot nor a data directory nor a partition's folder.
        Corrupt: the manifest of a snapshot, or a segment at the end of a log, is damaged.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: give a snapshot or a data directory")
    if (folder / manifest.FILE_NAME).exists():
        return [
            StoredPartition(
                each.topic,
                each.partition,
                folder / each.folder,
                each.start_offset,
                each.high_watermark,
                each.last_stable_offset,
                tuple((segment.base_offset, segment.end_offset) for segment in each.segments),
                {segment.base_offset: segment.end_position for segment in each.segments},
            )
            for each in manifest.read(folder).partitions
            if is_wanted(each.topic) and each.segments
        ]
    if any(is_offset_file(each, LOG) for each in file_ops.list_folder(folder)):
        return _closed([folder], folder.absolute().parent, lambda _: True)
    folders = [each for each in folder.iterdir() if each.is_dir() and partition_of(each.name)]
    is_ours = (folder / text_files.META_PROPERTIES).exists()
    if any((folder / each).is_dir() for each in _ARCHIVES):
        raise ConfigError(
            f"{folder} is an archive, a table of Parquet files that Spark reads itself:"
            " spark.read.parquet(folder), or for Delta"
            " spark.read.parquet(*deltalake.DeltaTable(folder).file_uris())"
        )
    if not folders and not is_ours:
        raise ConfigError(
            f"{folder} has no {manifest.FILE_NAME} and no TOPIC-PARTITION: give a snapshot or a"
            " data directory"
        )
    return _closed(folders, folder, is_wanted)


def _closed(
    folders: list[Path], data_dir: Path, is_wanted: Callable[[str], bool]
) -> list[StoredPartition]:
    starts = text_files.read_offsets(data_dir / text_files.LOG_START_OFFSETS)
    compacted = text_files.read_offsets(data_dir / text_files.CLEANER_OFFSETS)
    is_data_dir = (data_dir / text_files.META_PROPERTIES).exists()
    is_stopped = (data_dir / text_files.CLEAN_SHUTDOWN).exists()
    found = []
    for folder in folders:
        topic, partition = partition_of(folder.name) or (folder.name, 0)
        if not is_wanted(topic):
            continue
        try:
            log = Log(folder)
        except (FileNotFoundError, ValueError):
            continue  # no segment yet, or just deleted
        with log:
            end = log.end().offset if is_stopped else log.base_offsets[-1]
        start = max(starts.get((topic, partition), 0), log.base_offsets[0])
        has_gaps = not is_data_dir or (topic, partition) in compacted
        bases = [base for base in log.base_offsets if base < end]
        ends = None if has_gaps else tuple(pairwise((*bases, end)))
        if start < end:
            found.append(StoredPartition(topic, partition, folder, start, end, None, ends, {}))
    return sorted(found)


def pieces(stored: StoredPartition, bytes_max: int, *, is_committed: bool) -> list[Piece]:
    """Divide a partition into pieces of similar size, at most `bytes_max` if possible.

    Args:
        stored: the partition.
        bytes_max: the size of a piece; pieces begin at batches in the offset index.
        is_committed: only committed records, up to the last stable offset.

    Raises:
        Corrupt: an index of aborted transactions is damaged.
        SegmentGone: the files were deleted.
        ConfigError: bytes_max is too small.
    """
    if bytes_max < PIECE_BYTES_MIN:
        raise ConfigError(f"{bytes_max} bytes per task, expected {PIECE_BYTES_MIN} or more")
    with opened(stored.folder) as log:
        start, end = stored.start_offset, stored.end_offset
        aborted: list[Aborted] = []
        if is_committed:
            stable = stored.stable_offset
            end = stable_end(log, start, end, SCAN_CHUNK_BYTES) if stable is None else stable
            aborted = _aborted(log, start, end)
        cuts = [start, *_cuts(log, start, end, bytes_max), end]
        size = sum(log.sizes().values()) // (len(cuts) - 1)
    return [
        Piece(
            stored.topic,
            stored.partition,
            str(stored.folder),
            first,
            after,
            size,
            _within(aborted, first, after) if is_committed else None,
            stored.ends
            and tuple(
                each
                for each in stored.ends
                if first < each[1] <= after or each[0] < after < each[1]
            ),
        )
        for first, after in pairwise(cuts)
        if first < after
    ]


def opened(folder: Path) -> Log:
    """Open a partition's folder; raise SegmentGone if it was deleted."""
    try:
        return Log(folder)
    except (FileNotFoundError, ValueError) as error:
        raise SegmentGone(f"{folder}: the log is gone ({error})") from None


def _within(aborted: list[Aborted], start: int, end: int) -> tuple[Aborted, ...]:
    return tuple(each for each in aborted if each.first_offset < end and each.last_offset >= start)


def _cuts(log: Log, start: int, end: int, bytes_max: int) -> Iterator[int]:
    """Yield base offsets of batches, at about equal distances in bytes."""
    sizes = {base: size for base, size in log.sizes().items() if base < end}
    total = sum(sizes.values())
    count = max(-(-total // bytes_max), 1)
    targets = [total * each // count for each in range(1, count)]
    before, last = 0, start
    for base, size in sizes.items():
        with log.segment(base) as segment:
            while targets and targets[0] < before + size:
                cut = _batch_near(segment, targets.pop(0) - before)
                if cut is not None and last < cut < end:
                    yield cut
                    last = cut
        before += size


def _batch_near(segment: Segment, position: int) -> int | None:
    """Return the base offset of the first indexed batch from a position on."""
    entries = segment.offset_index
    place = bisect_left(entries["position"], position)
    if place == len(entries):
        return None
    batch = segment.locate(segment.base_offset + int(entries["relative_offset"][place]))
    return None if batch is None else batch.base_offset


def _aborted(log: Log, start: int, end: int) -> list[Aborted]:
    """Read the aborted transactions of all segments that can have records in [start, end)."""
    numpy = import_optional("numpy", "aborted transactions")
    found: list[Aborted] = []
    for base in log.base_offsets:
        file = log.path / file_name(base, ABORTED)
        try:
            content = file_ops.read_file(file)
        except FileNotFoundError:
            continue
        count = len(content) // _ABORTED_BYTES  # the broker may be writing the last one
        entries = numpy.frombuffer(content, numpy.dtype(_ABORTED_ENTRY), count)
        is_right = (entries["version"] == 0) & (entries["first_offset"] <= entries["last_offset"])
        if not is_right.all():
            place = int(is_right.argmin()) * _ABORTED_BYTES
            raise Corrupt(f"{file}: not an aborted transaction of version 0", place)
        near = entries[(entries["first_offset"] < end) & (entries["last_offset"] >= start)]
        found += [Aborted(*row.tolist()[1:4]) for row in near]
    return sorted(found, key=lambda each: each.first_offset)
