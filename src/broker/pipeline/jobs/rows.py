"""The rows of the jobs' reports.

They import nothing, because the command line documents them.
"""

from typing import NamedTuple


class ArchivedPartition(NamedTuple):
    """A partition.

    Attributes:
        partition: its number.
        start: the first offset that was not in the table.
        end: the offset after the last one that is in it now.
        records: that were written.
        files: that were written.
        bytes: of these files.
    """

    partition: int
    start: int
    end: int
    records: int
    files: int
    bytes: int


class ReplayedPartition(NamedTuple):
    """A partition of the archive.

    Attributes:
        partition: its number.
        start: its first offset.
        end: the offset after its last one.
        records: between these.
    """

    partition: int
    start: int
    end: int
    records: int


class AuditedSegment(NamedTuple):
    """A segment.

    Attributes:
        topic: of its partition.
        partition: its number.
        base_offset: by which it is named.
        next_offset: after its last batch.
        batches: in it.
        records: in these.
        size: in bytes.
        oldest: the smallest timestamp of a record.
        newest: the greatest timestamp of a record.
        crc_errors: batches with a wrong CRC.
        damaged_batches: batches with wrong counts.
        gaps: between offsets.
        missing_offsets: in these gaps.
        disorders: batches with offsets below those before them.
        late_batches: batches whose newest record is older than a record before them.
        sequence_gaps: gaps in the sequence of a producer.
        sequence_repeats: batches with a repeated producer sequence.
        index_errors: wrong entries of the two indexes.
        unreadable_bytes: bytes that belong to no batch.
    """

    topic: str
    partition: int
    base_offset: int
    next_offset: int
    batches: int
    records: int
    size: int
    oldest: str | None
    newest: str | None
    crc_errors: int
    damaged_batches: int
    gaps: int
    missing_offsets: int
    disorders: int
    late_batches: int
    sequence_gaps: int
    sequence_repeats: int
    index_errors: int
    unreadable_bytes: int


class PartitionLag(NamedTuple):
    """A partition that a group reads.

    Attributes:
        group: its name.
        topic: of the partition.
        partition: its number.
        end: the offset after its last record.
        committed: the group's offset.
        lag: records between these.
        records_per_second: that are written to it.
        seconds_behind: age of the first record that was not read; null if it is unknown.
        share: of the group's lag in the topic, in percent.
    """

    group: str
    topic: str
    partition: int
    end: int
    committed: int
    lag: int
    records_per_second: float
    seconds_behind: float | None
    share: float


class SnapshotPartition(NamedTuple):
    """A partition.

    Attributes:
        topic: its topic.
        partition: its number.
        start_offset: its first offset.
        high_watermark: the offset up to which consumers read.
        last_stable_offset: the offset before which all transactions have ended.
        segments: that were linked.
        bytes: of these.
    """

    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    last_stable_offset: int
    segments: int
    bytes: int


class Deduplicated(NamedTuple):
    """A run.

    Attributes:
        source: the topic that was read.
        target: the topic that was written to.
        records_read: from the source.
        records_written: to the target.
        duplicates_left_out: which the target has already.
        too_old_to_compare: records that were dropped, because duplicates of them may be forgotten.
        batches: that were written.
        seconds: that it took.
    """

    source: str
    target: str
    records_read: int
    records_written: int
    duplicates_left_out: int
    too_old_to_compare: int
    batches: int
    seconds: float
