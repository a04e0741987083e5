"""`broker snapshot create`: a consistent copy of a running broker's topics by hard links.

    ask the broker    log start, high watermark, last stable offset of each partition
    list the folder   link its segments, indexes and small files into DIR/TOPIC-PARTITION
    list it again     if files differ or a compaction is running, start this partition again
    at the end        write the manifest

The broker may roll, compact and delete segments meanwhile. Records below the high watermark at the
time of the listing are in the listed files; a link keeps a file that the broker deletes. A
compaction replaces files under the same names. So a partition is complete only if every linked file
still has its name afterwards, and there is no `.swap` file. The active segment and its link
continue to grow; the manifest has the position where the snapshot ends in it.

Links take no space until the broker deletes its files; both folders must be on one file system.
Never start a broker on a snapshot: it would write to files that another broker uses.
"""

import errno
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final, NamedTuple

from broker._native.kernel import file_ops
from broker.client.metadata import Cluster, Topic
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.codec import xxh3_64_column
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError, Corrupt, SegmentGone, SnapshotFailed, StorageError
from broker.model.limits import CLIENT_RETRY_SECONDS, SNAPSHOT_TRIES
from broker.model.report import Report
from broker.pipeline.jobs.rows import SnapshotPartition
from broker.pipeline.reaching import cluster_of
from broker.pipeline.segments import manifest
from broker.pipeline.segments.manifest import Manifest, PartitionEntry, SegmentEntry
from broker.segments import Segment, text_files
from broker.segments.file import SegmentFile
from broker.segments.names import LOG, SEGMENT_SUFFIXES, SWAP, file_name, offsets_of

if TYPE_CHECKING:
    from broker.client.security import SecuritySettings

_SMALL_FILES: Final = (text_files.LEADER_EPOCHS, text_files.PARTITION_METADATA)


class _Offsets(NamedTuple):
    """Offsets of a partition, from the broker."""

    start: int
    high_watermark: int
    last_stable: int


class _Changed(Exception):  # noqa: N818 - not an error: the partition is retried
    """The folder has changed; the text says how."""


def create(  # noqa: PLR0913 - what a snapshot is of
    folder: Path,
    data_dir: Path,
    broker: str,
    *,
    topics: Sequence[str] = (),
    security: "SecuritySettings | None" = None,
    timeout_seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Report:
    """Take a snapshot of a running broker's topics; a row per partition.

    Args:
        folder: the target, new or empty, on the file system of the data directory.
        data_dir: the broker's data directory.
        broker: its HOST:PORT.
        topics: by name; empty: all but the internal ones.
        security: TLS and the login; None: neither.
        timeout_seconds: how long an answer is waited for; None: as long as clients do.
        progress: called with lines about the progress.
        clock: the time of the snapshot.

    Raises:
        ConfigError: the folder is not empty, or is on another file system.
        SnapshotFailed: the folders are not those of this broker, or change at each try.
        RequestError: there is no such topic.
        Unreachable: there is no broker at the address.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not empty: name a new folder")
    if not data_dir.is_dir():
        raise ConfigError(f"{data_dir} is not a folder: give the broker's data directory")
    cluster = cluster_of(broker, security, timeout_seconds)
    found = cluster.topics(topics) if topics else cluster.existing_topics()
    wanted = [each for each in found.values() if topics or not each.is_internal]
    epochs = {
        (topic["name"], each["partition_index"]): each["leader_epoch"]
        for topic in cluster.metadata([each.name for each in wanted])["topics"]
        for each in topic["partitions"]
    }
    created_ms = (clock or SystemClock()).wall_ms()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created: {error}") from None
    try:
        entries, problems = [], []
        for topic in sorted(wanted):
            for partition in topic.partitions:
                linker = _Partition(cluster, topic, partition, data_dir, folder)
                entry = linker.link(epochs.get((topic.name, partition), -1))
                entries.append(entry)
                problems += linker.problems
                progress(f"{entry.folder}: {len(entry.segments)} segments")
        manifest.write(folder, Manifest(str(cluster), created_ms, tuple(entries)))
    except BaseException:
        rmtree(folder, ignore_errors=True)  # links, and folders created here
        raise
    return _report(entries, problems, folder)


def _report(entries: Sequence[PartitionEntry], problems: Sequence[str], folder: Path) -> Report:
    rows = [
        (
            *(getattr(each, name) for name in SnapshotPartition._fields[:5]),
            len(each.segments),
            sum(segment.end_position for segment in each.segments),
        )
        for each in entries
    ]
    totals = {
        "folder": str(folder),
        "partitions": len(rows),
        "segments": sum(len(each.segments) for each in entries),
        "bytes": sum(row[-1] for row in rows),
    }
    return Report(SnapshotPartition._fields, rows, totals, problems)


class _Partition:
    """The snapshot of one partition."""

    def __init__(
        self, cluster: Cluster, topic: Topic, partition: int, data_dir: Path, target: Path
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._key = (topic.name, partition)
        self._source = data_dir / f"{topic.name}-{partition}"
        self._target = target / self._source.name
        self.problems: list[str] = []

    def link(self, leader_epoch: int) -> PartitionEntry:
        """Link the files; retry if they change meanwhile."""
        changed = _Changed()
        for _ in range(SNAPSHOT_TRIES):
            rmtree(self._target, ignore_errors=True)
            self._target.mkdir(mode=0o700)
            self.problems.clear()
            try:
                offsets = self._offsets()
                segments = self._segments(offsets)
            except _Changed as error:
                changed = error
                time.sleep(CLIENT_RETRY_SECONDS)
                continue
            topic, partition = self._key
            return PartitionEntry(
                topic, self._topic.topic_id, partition, *offsets, leader_epoch, segments
            )
        raise SnapshotFailed(
            f"{self._source}: {changed}, after {SNAPSHOT_TRIES} tries: is it in the data directory"
            f" of the broker at {self._cluster}?"
        )

    def _offsets(self) -> _Offsets:
        """Ask for offsets, the high watermark last: records below it are in the files."""
        start = list_offsets(self._cluster, {self._key: EARLIEST})[self._key].offset
        stable = list_offsets(self._cluster, {self._key: LATEST}, is_committed=True)
        high_watermark = list_offsets(self._cluster, {self._key: LATEST})[self._key].offset
        return _Offsets(start, high_watermark, min(stable[self._key].offset, high_watermark))

    def _segments(self, offsets: _Offsets) -> tuple[SegmentEntry, ...]:
        self._check_topic()
        linked = self._link(offsets.high_watermark)
        self._check_unchanged(linked)
        bases = offsets_of((each.name for each in linked), LOG)
        if not bases and offsets.start < offsets.high_watermark:
            raise _Changed("there is no segment, but the broker has records")
        try:
            return tuple(
                self._entry(base, after, offsets) for base, after in zip_longest(bases, bases[1:])
            )
        except (SegmentGone, FileNotFoundError) as error:
            raise SnapshotFailed(f"{self._target}: {error}") from error

    def _check_topic(self) -> None:
        """Check the topic id of the folder: an older topic may have had the same name."""
        topic_id = text_files.read_partition_metadata(self._source)
        if topic_id is None:
            raise _Changed("it has no partition.metadata")
        if self._topic.topic_id and topic_id.hex() != self._topic.topic_id:
            raise _Changed(f"its topic has the id {topic_id.hex()}, not {self._topic.topic_id}")

    def _link(self, high_watermark: int) -> dict[Path, int]:
        """Link the segments that begin below the high watermark; return the inode of each file."""
        names = self._listing()
        bases = [base for base in offsets_of(names, LOG) if base < high_watermark]
        wanted = [file_name(base, suffix) for base in bases for suffix in SEGMENT_SUFFIXES]
        linked = {}
        for name in (*wanted, *_SMALL_FILES):
            if name in names:
                self._link_file(name)
                linked[self._source / name] = (self._target / name).stat().st_ino
        return linked

    def _link_file(self, name: str) -> None:
        try:
            os.link(self._source / name, self._target / name)
        except FileNotFoundError:
            raise _Changed(f"{name} was deleted after the listing") from None
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise ConfigError(
                    f"{self._target} is on another file system than {self._source}: a snapshot is"
                    " hard links, put it beside the data directory"
                ) from None
            raise StorageError(f"link {self._source / name} to {self._target}: {error}") from error

    def _check_unchanged(self, linked: dict[Path, int]) -> None:
        self._listing()
        for file, inode in linked.items():
            if file.name in _SMALL_FILES:
                continue  # replaced atomically: the older one is as good
            try:
                is_same = file.stat().st_ino == inode
            except FileNotFoundError:  # by retention or compaction
                is_same = False
            if not is_same:
                raise _Changed(f"{file.name} was replaced")

    def _listing(self) -> set[str]:
        try:
            names = set(file_ops.list_folder(self._source))
        except FileNotFoundError:
            raise _Changed("there is no such folder") from None
        if any(name.endswith(SWAP) for name in names):
            raise _Changed("a compaction is running")
        return names

    def _entry(self, base: int, after: int | None, offsets: _Offsets) -> SegmentEntry:
        """Return the entry of a segment: where the snapshot ends in it, and the hash."""
        file = self._target / file_name(base, LOG)
        with Segment(file) as segment:
            size = segment.size
            position, offset = self._end(segment, after, offsets.high_watermark)
        with closing(SegmentFile(file)) as stored:
            content = stored.view(0, position, copy=False).data if position else memoryview(b"")
            [digest] = memoryview(xxh3_64_column([content])).cast("B").cast("Q")
        return SegmentEntry(base, offset, position, size, f"{digest:016x}")

    def _end(self, segment: Segment, after: int | None, high_watermark: int) -> tuple[int, int]:
        """Return the position and the offset at which the snapshot ends in a segment."""
        try:
            end = segment.end()
            if after is None:
                batch = segment.locate(high_watermark)
                if batch is None and end.offset < high_watermark:
                    raise _Changed(
                        f"its log ends at offset {end.offset}, the broker's at {high_watermark}"
                    )
                return end.position if batch is None else batch.position, high_watermark
            if segment.has_only_zeros(end.position):
                return end.position, end.offset
            reason = f"{end.reason} at byte {end.position}"
        except Corrupt as error:
            reason = str(error)
        self.problems.append(f"{segment.path.parent.name}/{segment.path.name}: {reason}")
        return segment.size, high_watermark if after is None else after
