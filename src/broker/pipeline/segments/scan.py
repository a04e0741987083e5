"""A range of offsets of a log's files as columns, and what of it cannot be read.

    chunks of whole batches (broker.segments) → headers follow one another? → columns
                                              → no: batch by batch; each bad one is a Damage

Where not even a header can be read, reading goes on at the next batch that the offset index knows,
or in the next segment; everything between is one Damage. So each offset of the range is in columns,
in a Damage, or was no record: removed by compaction, a control record, aborted.
"""

from collections.abc import Iterator
from itertools import chain, islice, pairwise, repeat, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.codec import scan_headers
from broker.model.errors import CodecError
from broker.model.limits import PIPELINE_COMPRESSED_BYTES
from broker.pipeline.decoding import Decoder
from broker.segments import Batch, Chunk, Log
from broker.segments.file import SegmentFile

if TYPE_CHECKING:
    import pyarrow as pa

_CODEC: Final = 0x07  # of a batch's attributes
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_CUT: Final = "batches are missing"


class Damage(NamedTuple):
    """Offsets that cannot be read.

    Attributes:
        segment: base offset of the segment where it begins.
        position: where in that file, bytes.
        offset: the first that may be lost.
        next_offset: where reading goes on.
        reason: what is wrong there.
    """

    segment: int
    position: int
    offset: int
    next_offset: int
    reason: str


class Wanted(NamedTuple):
    """The offsets [start_offset, end_offset), without what these transactions have written.

    `aborted` is None where uncommitted records are wanted. `ends` says how far each segment goes,
    by base offset (see StoredPartition): None where nobody knows.
    """

    start_offset: int
    end_offset: int
    aborted: "tuple[Aborted, ...] | None" = None
    ends: tuple[tuple[int, int], ...] | None = None

    def has(self, offset: int, segment: int | None) -> bool:
        """Whether a segment before one of them, or any, has wanted offsets from this one on."""
        ends = self.ends or ()
        if segment is not None and ends and all(one[1] == two[0] for one, two in pairwise(ends)):
            return True  # nothing was compacted there
        return any(
            min(end, self.end_offset) > offset
            for base, end in ends
            if segment is None or base < segment
        )


class Aborted(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def chunks(log: Log, wanted: Wanted, bytes_max: int) -> Iterator[Chunk | Damage]:
    """Iterate over the whole batches of the offsets wanted, and what is damaged between them.

    Only headers have been looked at, and not all of them.

    Raises:
        SegmentGone: retention has removed what is wanted.
    """
    end = wanted.end_offset
    offset = wanted.start_offset  # where the next chunk begins, at least
    resumed = offset  # what is asked for: an offset that an index entry leads to
    segment, position = log.base_offsets[0], 0
    while offset < end:
        reason = ""
        try:
            for chunk in log.chunks(bytes_max, start_offset=resumed, end_offset=end):
                if chunk.base_offset > offset and wanted.has(offset, chunk.segment):
                    yield Damage(segment, position, offset, chunk.base_offset, _CUT)
                segment, position = chunk.segment, chunk.position + chunk.data.size
                within = min(chunk.next_offset, _after(log, segment))
                yield chunk._replace(next_offset=within)
                offset = resumed = within
                if within < chunk.next_offset:
                    break  # the log would go on behind an offset that is wrong
            else:
                reason = _end_fault(log, wanted, segment, position, offset)
                if not reason:
                    return
        except (CodecError, ValueError) as error:  # a range that ends inside of a batch, too
            reason = error.reason if isinstance(error, CodecError) else str(error)
            if isinstance(error, CodecError) and error.position is not None:
                position = error.position
        if not reason:
            continue
        behind = _next_indexed(log, offset, end)
        next_offset = end if behind is None else behind.base_offset
        yield Damage(segment, position, offset, next_offset, reason)
        if behind is None:
            return
        offset, resumed = behind.base_offset, behind.last_offset


def _end_fault(log: Log, wanted: Wanted, segment: int, position: int, offset: int) -> str:
    """Return why what is wanted from an offset on is missing; "" for nothing is."""
    if offset < wanted.end_offset and wanted.ends is None:
        return _gap_fault(log, segment, position, offset, wanted.end_offset)
    return _CUT if wanted.has(offset, None) else ""


def _after(log: Log, segment: int) -> int:
    """Return the base offset of the segment behind, above all offsets for the last."""
    return next((each for each in log.base_offsets if each > segment), 1 << 63)


def rows(
    log: Log, chunk: Chunk, wanted: Wanted, decoder: Decoder
) -> "Iterator[pa.RecordBatch | Damage]":
    """Decode a chunk; what is damaged in it is told and left out."""
    if not _is_continuous(chunk):
        yield from _batch_by_batch(log, chunk, wanted, decoder)
        return
    for part in _parts(chunk):
        try:
            # All of a part before its first row is given away: after an error none is given twice.
            found = list(_decoded(part, wanted, decoder))
        except CodecError:
            yield from _batch_by_batch(log, part, wanted, decoder)
        else:
            yield from found


def _decoded(chunk: Chunk, wanted: Wanted, decoder: Decoder) -> "Iterator[pa.RecordBatch]":
    aborted = None if wanted.aborted is None else overlapping(wanted.aborted, chunk)
    return decoder.batches(chunk.data.data, wanted.start_offset, wanted.end_offset, aborted)


def _parts(chunk: Chunk) -> Iterator[Chunk]:
    """Cut a chunk with compressed batches, so that not all of it is unfolded at once."""
    headers = scan_headers(chunk.data.data).to_numpy()
    if not (headers["attributes"] & _CODEC).any():
        yield chunk
        return
    start, offset = 0, chunk.base_offset
    for header in headers:
        end, next_offset = int(header["position"] + header["size"]), int(header["last_offset"]) + 1
        if end - start >= PIPELINE_COMPRESSED_BYTES or end == chunk.data.size:
            yield _part(chunk, start, end, offset, next_offset)
            start, offset = end, next_offset


def _part(chunk: Chunk, start: int, end: int, offset: int, next_offset: int) -> Chunk:
    return Chunk(chunk.data[start:end], chunk.segment, chunk.position + start, offset, next_offset)


def overlapping(aborted: tuple[Aborted, ...], chunk: Chunk) -> list[tuple[int, int]]:
    """Return the transactions whose records or marker can be in a chunk.

    One whose marker stands before it must not be among them: its producer goes on, and a decoder
    that has not seen the marker would leave out what is committed.
    """
    return [
        (each.producer_id, each.first_offset)
        for each in aborted
        if each.first_offset < chunk.next_offset and each.last_offset >= chunk.base_offset
    ]


def count_by_headers(chunk: Chunk, wanted: Wanted) -> int | None:
    """Return how many records of a chunk are wanted, by its headers; None: they do not tell.

    They do not where a message of magic 0 or 1 holds others, where the range begins or ends inside
    of a batch, and where they are damaged. No CRC is looked at.
    """
    is_inside = wanted.start_offset <= chunk.base_offset and chunk.next_offset <= wanted.end_offset
    if not is_inside or not _is_continuous(chunk):
        return None
    headers = scan_headers(chunk.data.data).to_numpy()
    if (headers["record_count"] < 0).any():
        return None
    is_wanted = (headers["attributes"] & _CONTROL) == 0
    for each in wanted.aborted or ():
        if each.first_offset < chunk.next_offset and each.last_offset >= chunk.base_offset:
            is_wanted &= ~(
                (headers["producer_id"] == each.producer_id)
                & ((headers["attributes"] & _TRANSACTIONAL) != 0)
                & (headers["base_offset"] >= each.first_offset)
                & (headers["base_offset"] <= each.last_offset)
            )
    return int(headers["record_count"][is_wanted].sum())


def stable_end(log: Log, start: int, end: int, bytes_max: int) -> int:
    """Return the last stable offset of [start, end): where the first open transaction begins.

    All headers are read for it. Raises SegmentGone, as `chunks`.
    """
    opened: dict[int, int] = {}
    for chunk in chunks(log, Wanted(start, end), bytes_max):
        if isinstance(chunk, Damage):
            continue
        try:
            headers = scan_headers(chunk.data.data).to_numpy()
        except CodecError:
            continue  # whoever reads the chunk is told
        for row in headers[(headers["attributes"] & _TRANSACTIONAL) != 0]:
            if row["attributes"] & _CONTROL:
                opened.pop(int(row["producer_id"]), None)
            else:
                opened.setdefault(int(row["producer_id"]), int(row["base_offset"]))
    return min(opened.values(), default=end)


def _is_continuous(chunk: Chunk) -> bool:
    """Whether headers lead from the first byte to the last, and offsets never go back."""
    try:
        headers = scan_headers(chunk.data.data)
    except CodecError:
        return False
    table = headers.to_numpy()
    first, last = table["base_offset"], table["last_offset"]
    return bool(
        headers.end == chunk.data.size
        and first[0] == chunk.base_offset
        and last[-1] + 1 == chunk.next_offset
        and (first <= last).all()
        and (last[:-1] < first[1:]).all()
    )


def _batch_by_batch(
    log: Log, chunk: Chunk, wanted: Wanted, decoder: Decoder
) -> "Iterator[pa.RecordBatch | Damage]":
    position, offset = 0, chunk.base_offset
    while position < chunk.data.size:
        for batch in _batches(chunk, position, offset):
            if isinstance(batch, Damage):
                yield batch
                continue
            try:
                yield from list(_decoded(batch, wanted, decoder))
            except CodecError as error:
                lost = batch.base_offset, batch.next_offset
                yield Damage(batch.segment, batch.position, *lost, error.reason)
            position = batch.position - chunk.position + batch.data.size
            offset = batch.next_offset
        if position >= chunk.data.size:
            return
        behind = _next_indexed(log, offset, chunk.next_offset)
        next_offset = chunk.next_offset if behind is None else behind.base_offset
        place = chunk.position + position
        yield Damage(chunk.segment, place, offset, next_offset, "no batch that can follow")
        if behind is None or behind.position <= place:
            return
        position, offset = behind.position - chunk.position, behind.base_offset


def _batches(chunk: Chunk, position: int, offset: int) -> Iterator[Chunk | Damage]:
    """Yield each batch from a position on as long as headers lead from one to the next.

    A base offset is under no CRC: of two that cannot both be right, the one is believed that goes
    with those before and behind.
    """
    data = chunk.data[position:].data
    try:
        headers = scan_headers(data)
    except CodecError as error:
        headers = scan_headers(data[: error.position or 0])
    for header, after in zip_longest(headers, islice(headers, 1, None)):
        start, last = position + header.position, header.last_offset
        can_follow = after is not None and after.base_offset >= offset
        if not offset <= header.base_offset <= last < chunk.next_offset:
            if not can_follow:
                return
        elif not can_follow or after.base_offset > last:
            end, offset = start + header.size, last + 1
            # Its last offset may be what is wrong with it: then it ends where the next one begins.
            behind = after.base_offset if can_follow else offset
            behind = chunk.next_offset if end == chunk.data.size else behind
            yield _part(chunk, start, end, header.base_offset, behind)
            continue
        reason = f"a batch of offset {header.base_offset}, expected {offset} or a few more"
        place = chunk.position + start
        yield Damage(chunk.segment, place, offset, after.base_offset, reason)
        offset = after.base_offset


def _gap_fault(log: Log, base: int, position: int, offset: int, end: int) -> str:
    """Return why offsets [offset, end) are missing behind a position, "" for compaction.

    Compaction leaves such a gap only where a batch or a segment goes on behind it: it never touches
    the last segment.
    """
    followers = [each for each in log.base_offsets if each > base]
    file = SegmentFile(log.path / f"{base:020}.log" if log.path.is_dir() else log.path)
    try:
        first, second = islice(chain(file.batches(position, offset), repeat(None)), 2)
        if first is None:
            is_end = bool(followers) and file.has_only_zeros(position)
            is_valid = is_end and followers[0] >= end
            return "" if is_valid else file.fault(position, offset) or "nothing"
        is_last = second is None and file.has_only_zeros(first.end)
    finally:
        file.close()
    can_follow = first.base_offset >= end and (second is not None or is_last)
    if can_follow and followers and first.last_offset < followers[0]:
        return ""
    return f"a batch of offset {first.base_offset}, expected {offset}"


def _next_indexed(log: Log, offset: int, end: int) -> Batch | None:
    """Return a batch behind a damaged place that is known from elsewhere: the index, a file's name.

    None when there is none before `end`.
    """
    log.refresh()
    bases = [each for each in log.base_offsets if each < end]
    holding = [each for each in bases if each <= offset][-1:]
    for base in [*holding, *(each for each in bases if each > offset)]:
        with log.segment(base) as segment:
            if base > offset and (first := segment.locate(base)) is not None:
                return first if first.base_offset < end else None
            for relative in segment.offset_index["relative_offset"]:
                if base + int(relative) < offset:
                    continue
                batch = segment.locate(base + int(relative))
                if batch is not None and offset < batch.base_offset < end:
                    return batch
    return None
