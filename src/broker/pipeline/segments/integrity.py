"""Whether one segment is sound: every byte of it is looked at, no record becomes an object.

    bytes → codec.audit           CRCs, counts, offsets: gaps and steps back
          → headers as arrays     sequences of producers, times, what the indexes say of them

Bytes that begin no batch are passed over up to the next batch that the offset index knows.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker import codec
from broker.codec.packages import needed
from broker.model.errors import CodecError, Corrupt, SegmentGone
from broker.model.limits import INTEGRITY_CHUNK_BYTES
from broker.segments import Segment
from broker.segments.file import SegmentFile

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_CONTROL: Final = 0x20  # of a batch's attributes
_SEQUENCE_BITS: Final = 31  # sequences go on with 0 behind 2**31 - 1
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
    """What there is to know before a segment is read.

    Attributes:
        topic: of its partition.
        partition: its number.
        file: the `.log` file.
        end_position: behind its last byte; None: the file's end.
        end_offset: that its last batch ends at, where nothing is missing; None: nobody knows.
        has_gaps: whether compaction may have taken records away.
    """

    topic: str
    partition: int
    file: str
    end_position: int | None
    end_offset: int | None
    has_gaps: bool


class SegmentIntegrity(NamedTuple):
    """What was found in a segment, beside the counts of codec.audit.

    Attributes:
        late_batches: whose newest record is older than one before it.
        sequence_gaps: batches that a producer's sequence says to be missing.
        sequence_repeats: batches whose sequence was there before.
        index_errors: entries of the two indexes that say what is not so.
        unreadable_bytes: that no header leads to, at the end or up to an indexed batch.
        producers: by id: epoch, first and next sequence, to go on with in the next segment.
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
    """Read a segment from its first byte to its last.

    Raises:
        SegmentGone: it is not there any more.
    """
    path = Path(facts.file)
    try:
        segment, file = Segment(path), SegmentFile(path)
    except FileNotFoundError:
        raise SegmentGone(f"{path}: the segment is gone") from None
    with segment:
        try:
            size = file.size
            limit = size if facts.end_position is None else min(facts.end_position, size)
            counts, headers, unreadable = _walk(segment, file, limit)
        finally:
            file.close()
        unreadable += max((facts.end_position or 0) - size, 0)
        index_errors = _index_errors(segment, headers, limit)
    gaps, repeats, producers = _sequences(headers)
    return SegmentIntegrity(
        facts,
        segment.base_offset,
        counts.first_offset,
        counts.next_offset,
        counts.batches,
        counts.records,
        counts.size,
        counts.min_timestamp,
        counts.max_timestamp,
        counts.crc_errors,
        counts.damaged_batches,
        counts.gaps,
        counts.missing_offsets,
        counts.disorders,
        _late(headers["max_timestamp"]),
        gaps,
        repeats,
        index_errors,
        unreadable,
        producers,
    )


def _walk(
    segment: Segment, file: SegmentFile, limit: int
) -> "tuple[codec.Audit, dict[str, Array], int]":
    """Return the counts, the headers as columns, and how many bytes were passed over."""
    numpy = needed("numpy", "an audit")
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
            window *= 2  # a batch that is larger
        elif file.has_only_zeros(position):
            break
        else:
            behind = _indexed_behind(segment, position, limit)
            unreadable += behind - position
            position = behind
    columns = {
        name: numpy.concatenate([numpy.empty(0, numpy.int64), *(each[name] for each in tables)])
        for name in _FIELDS
    }
    return counts, columns, unreadable


def _indexed_behind(segment: Segment, position: int, limit: int) -> int:
    """Return where the first batch behind a position stands that the index knows, or the limit."""
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


def _late(timestamps: "Array") -> int:
    numpy = needed("numpy", "an audit")
    if len(timestamps) == 0:
        return 0
    newest = numpy.maximum.accumulate(timestamps)
    return int((timestamps[1:] < newest[:-1]).sum())


def _sequences(
    headers: "dict[str, Array]",
) -> tuple[int, int, dict[int, tuple[int, int, int]]]:
    """Return gaps and repeats in the sequences of every producer, and where each begins and ends.

    A batch has as many sequences as offsets: compaction takes records, not the offsets of a batch.
    """
    numpy = needed("numpy", "an audit")
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
    # Of the newest epoch: what an older one was followed by says nothing.
    starts = numpy.flatnonzero(numpy.append(True, ~follows))
    start_of = starts[numpy.searchsorted(starts, ends, side="right") - 1]
    producers = {
        int(ids[end]): (int(epochs[end]), int(first[start]), int(after[end]))
        for start, end in zip(start_of, ends, strict=True)
    }
    return gaps, repeats, producers


def _index_errors(segment: Segment, headers: "dict[str, Array]", limit: int) -> int:
    """Count the entries that no batch agrees with, of both indexes."""
    numpy = needed("numpy", "an audit")
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
    # The last offset of the batch, or in files of older brokers that of the record itself.
    place = numpy.minimum(numpy.searchsorted(last, offsets), max(len(last) - 1, 0))
    known = headers["max_timestamp"][place] if len(last) else times
    return errors + int((is_inside & (known != times)).sum())


def _agree(keys: "Array", wanted: "Array", values: "Array", expected: "Array") -> "Array":
    """Whether each wanted key is there, and has the value that is expected."""
    numpy = needed("numpy", "an audit")
    if len(keys) == 0:
        nothing: Array = numpy.zeros(len(wanted), bool)
        return nothing
    place = numpy.minimum(numpy.searchsorted(keys, wanted), len(keys) - 1)
    found: Array = (keys[place] == wanted) & (values[place] == expected)
    return found
