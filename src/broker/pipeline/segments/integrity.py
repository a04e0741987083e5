"""Checks the integrity of a segment: reads every byte, without an object per record.

    bytes → codec.audit           CRCs, counts, offsets (gaps and decreases)
          → headers as arrays     sequences of producers, timestamps, both indexes

Bytes that begin no batch are skipped up to the next batch in the offset index.
"""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker import codec
from broker.codec.packages import import_optional
from broker.model.errors import CodecError, Corrupt, SegmentGone
from broker.model.limits import INTEGRITY_CHUNK_BYTES
from broker.segments import Segment
from broker.segments.file import SegmentFile

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_CONTROL: Final = 0x20  # of a batch's attributes
_SEQUENCE_BITS: Final = 31  # sequence 0 follows 2**31 - 1
_FIELDS: Final = (
    "position",
    "base_offset",
    "last_offset",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "attributes",
)


class SegmentFacts(NamedTuple):
    """What is known about a segment before it is read.

    Attributes:
        topic: of its partition.
        partition: its number.
        file: the `.log` file.
        end_position: the position after its last byte; None: the end of the file.
        end_offset: the offset after its last batch if nothing is missing; None: unknown.
        has_gaps: whether compaction may have removed records.
    """

    topic: str
    partition: int
    file: str
    end_position: int | None
    end_offset: int | None
    has_gaps: bool


class SegmentIntegrity(NamedTuple):
    """The result of the check of a segment; most fields are those of codec.audit.

    Attributes:
        late_batches: batches whose newest record is older than a record before them.
        sequence_gaps: gaps in the sequence of a producer.
        sequence_repeats: batches with a repeated producer sequence.
        index_errors: wrong entries of the two indexes.
        unreadable_bytes: bytes that belong to no batch, at the end or before an indexed batch.
        producers: by id: epoch, first and next sequence, for the check of the next segment.
    """

    facts: SegmentFacts
    base_offset: int
    first_offset: int
    next_offset: int
    batches: int
    records: int
    size: int
    min_timestamp: int
    max_timestamp: int
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
    producers: dict[int, tuple[int, int, int]]


def audit_segment(facts: SegmentFacts) -> SegmentIntegrity:
    """Check a segment from its first byte to its last.

    Raises:
        SegmentGone: it was deleted.
    """
    path = Path(facts.file)
    try:
        segment, file = Segment(path), SegmentFile(path)
    except FileNotFoundError:
        raise SegmentGone(f"{path}: the segment is gone") from None
    with segment, closing(file):
        size = file.size
        limit = size if facts.end_position is None else min(facts.end_position, size)
        counts, headers, unreadable = _walk(segment, file, limit)
        index_errors = _index_errors(segment, headers, limit)
    gaps, repeats, producers = _sequences(headers)
    counted: dict[str, Any] = {
        name: getattr(counts, name) for name in SegmentIntegrity._fields if hasattr(counts, name)
    }
    return SegmentIntegrity(
        facts=facts,
        base_offset=segment.base_offset,
        late_batches=_late_batches(headers["max_timestamp"]),
        sequence_gaps=gaps,
        sequence_repeats=repeats,
        index_errors=index_errors,
        unreadable_bytes=unreadable + max((facts.end_position or 0) - size, 0),
        producers=producers,
        **counted,
    )


def _walk(
    segment: Segment, file: SegmentFile, limit: int
) -> "tuple[codec.Audit, dict[str, Array], int]":
    """Return the counts, the headers as columns, and the number of bytes skipped."""
    numpy = import_optional("numpy", "an audit")
    counts = codec.audit(b"")
    tables: list[dict[str, Array]] = []
    position, unreadable, window = 0, 0, INTEGRITY_CHUNK_BYTES
    while position < limit:
        data = file.view(position, min(position + window, limit), copy=False)
        before = counts.size
        try:
            codec.audit(data.data, counts)
        except Corrupt:
            is_cut = True
        else:
            is_cut = position + data.size == limit
        taken = counts.size - before
        if taken:
            table = codec.scan_headers(data[:taken].data).to_numpy()
            fields = {name: table[name].astype(numpy.int64) for name in _FIELDS}
            fields["position"] += position
            tables.append(fields)
            position += taken
            window = INTEGRITY_CHUNK_BYTES
        elif not is_cut:
            window *= 2  # the batch is larger than the window
        elif file.has_only_zeros(position):
            break
        else:
            next_batch = _next_indexed(segment, position, limit)
            unreadable += next_batch - position
            position = next_batch
    columns = {
        name: numpy.concatenate([numpy.empty(0, numpy.int64), *(each[name] for each in tables)])
        for name in _FIELDS
    }
    return counts, columns, unreadable


def _next_indexed(segment: Segment, position: int, limit: int) -> int:
    """Return the position of the first indexed batch after a position, or the limit."""
    entries = segment.offset_index
    for place, relative in zip(
        entries["position"].tolist(), entries["relative_offset"].tolist(), strict=True
    ):
        if position < place < limit:
            try:
                batch = segment.locate(segment.base_offset + relative)
            except CodecError:
                continue
            if batch is not None and batch.position == place:
                return int(place)
    return limit


def _late_batches(timestamps: "Array") -> int:
    numpy = import_optional("numpy", "an audit")
    newest = numpy.maximum.accumulate(timestamps)
    return int((timestamps[1:] < newest[:-1]).sum())


def _sequences(
    headers: "dict[str, Array]",
) -> tuple[int, int, dict[int, tuple[int, int, int]]]:
    """Return gaps and repeats in the producers' sequences, and where each begins and ends.

    A batch has as many sequences as offsets: compaction removes records, but a batch keeps its
    offsets.
    """
    numpy = import_optional("numpy", "an audit")
    is_numbered = (
        (headers["producer_id"] >= 0)
        & (headers["base_sequence"] >= 0)
        & ((headers["attributes"] & _CONTROL) == 0)
    )
    if not is_numbered.any():
        return 0, 0, {}
    chosen = {name: column[is_numbered] for name, column in headers.items()}
    order = numpy.argsort(chosen["producer_id"], kind="stable")
    ids, epochs = chosen["producer_id"][order], chosen["producer_epoch"][order]
    first = chosen["base_sequence"][order]
    count = (chosen["last_offset"] - chosen["base_offset"])[order] + 1
    after = (first + count) % (1 << _SEQUENCE_BITS)
    follows = (ids[1:] == ids[:-1]) & (epochs[1:] == epochs[:-1])
    ahead = (first[1:] - after[:-1]) % (1 << _SEQUENCE_BITS)
    gaps = int((follows & (ahead > 0) & (ahead < 1 << (_SEQUENCE_BITS - 1))).sum())
    repeats = int((follows & (ahead >= 1 << (_SEQUENCE_BITS - 1))).sum())
    ends = numpy.flatnonzero(numpy.append(ids[1:] != ids[:-1], True))
    # Only of the newest epoch: the sequence begins again with each epoch.
    starts = numpy.flatnonzero(numpy.append(True, ~follows))
    start_of = starts[numpy.searchsorted(starts, ends, side="right") - 1]
    producers = {
        int(ids[end]): (int(epochs[end]), int(first[start]), int(after[end]))
        for start, end in zip(start_of, ends, strict=True)
    }
    return gaps, repeats, producers


def _index_errors(segment: Segment, headers: "dict[str, Array]", limit: int) -> int:
    """Count the entries of both indexes that match no batch."""
    numpy = import_optional("numpy", "an audit")
    entries = segment.offset_index
    positions = entries["position"].astype(numpy.int64)
    offsets = entries["relative_offset"].astype(numpy.int64) + segment.base_offset
    is_inside = positions < limit
    wrong = ~_agree(headers["position"], positions, headers["last_offset"], offsets)
    errors = int((wrong & is_inside).sum())
    entries = segment.time_index
    times = entries["timestamp"].astype(numpy.int64)
    offsets = entries["relative_offset"].astype(numpy.int64) + segment.base_offset
    last = headers["last_offset"]
    is_inside = offsets <= (last[-1] if len(last) else -1)
    # The entry has the last offset of the batch, or with older brokers that of the record.
    place = numpy.minimum(numpy.searchsorted(last, offsets), max(len(last) - 1, 0))
    known = headers["max_timestamp"][place] if len(last) else times
    return errors + int((is_inside & (known != times)).sum())


def _agree(keys: "Array", wanted: "Array", values: "Array", expected: "Array") -> "Array":
    """Return whether each wanted key exists and has the expected value."""
    numpy = import_optional("numpy", "an audit")
    if len(keys) == 0:
        none: Array = numpy.zeros(len(wanted), bool)
        return none
    place = numpy.minimum(numpy.searchsorted(keys, wanted), len(keys) - 1)
    found: Array = (keys[place] == wanted) & (values[place] == expected)
    return found
