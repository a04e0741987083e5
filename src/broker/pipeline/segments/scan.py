"""Reads a range of offsets from a log's files as columns, and reports damaged ranges.

    chunks of whole batches (broker.segments) → headers are continuous? → columns
                                              → no: batch by batch; each bad one is a Damage

If a header cannot be read, reading continues at the next batch in the offset index, or in the next
segment; everything between is one Damage. So each offset of the range is in columns, in a Damage,
or has no record to return: it was removed by compaction, is a control record, or was aborted.
"""

from collections.abc import Iterator
from contextlib import closing
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
_MISSING: Final = "batches are missing"


class Damage(NamedTuple):
    """Offsets that cannot be read.

    Attributes:
        segment: base offset of the segment where it begins.
        position: its position in that file.
        offset: the first offset that may be lost.
        next_offset: the offset at which reading continues.
        reason: the fault at the position.
    """

    segment: int
    position: int
    offset: int
    next_offset: int
    reason: str


class ScanRange(NamedTuple):
    """The offsets [start_offset, end_offset), without the records of aborted transactions.

    `aborted` is None for read_uncommitted. `ends` has the end offset of each segment by base offset
    (see StoredPartition), or None if they are unknown.
    """

    start_offset: int
    end_offset: int
    aborted: "tuple[Aborted, ...] | None" = None
    ends: tuple[tuple[int, int], ...] | None = None

    def has(self, offset: int, segment: int | None) -> bool:
        """Return whether a segment has offsets of the range from an offset on.

        Only segments before `segment` count; None: all segments.
        """
        ends = self.ends or ()
        if segment is not None and ends and all(one[1] == two[0] for one, two in pairwise(ends)):
            return True  # the log was not compacted
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


def chunks(log: Log, wanted: ScanRange, bytes_max: int) -> Iterator[Chunk | Damage]:
    """Yield chunks of whole batches in the range, and the damaged ranges between them.

    Only some of the headers are checked.

    Raises:
        SegmentGone: retention has deleted a part of the range.
    """
    end = wanted.end_offset
    offset = wanted.start_offset  # the lowest offset of the next chunk
    resumed = offset  # the offset to look up, which an index entry may lead to
    segment, position = log.base_offsets[0], 0
    while offset < end:
        reason = ""
        try:
            for chunk in log.chunks(bytes_max, start_offset=resumed, end_offset=end):
                if chunk.base_offset > offset and wanted.has(offset, chunk.segment):
                    yield Damage(segment, position, offset, chunk.base_offset, _MISSING)
                segment, position = chunk.segment, chunk.position + chunk.data.size
                within = min(chunk.next_offset, _next_segment(log, segment))
                yield chunk._replace(next_offset=within)
                offset = resumed = within
                if within < chunk.next_offset:
                    break  # the last offset is wrong, and the log would continue after it
            else:
                reason = _end_fault(log, wanted, segment, position, offset)
                if not reason:
                    return
        except (CodecError, ValueError) as error:  # ValueError: a range that ends inside of a batch
            reason = error.reason if isinstance(error, CodecError) else str(error)
            if isinstance(error, CodecError) and error.position is not None:
                position = error.position
        if not reason:
            continue
        next_batch = _next_indexed(log, offset, end)
        next_offset = end if next_batch is None else next_batch.base_offset
        yield Damage(segment, position, offset, next_offset, reason)
        if next_batch is None:
            return
        offset, resumed = next_batch.base_offset, next_batch.last_offset


def _end_fault(log: Log, wanted: ScanRange, segment: int, position: int, offset: int) -> str:
    """Return why offsets of the range are missing from an offset on; "" if none is."""
    if offset < wanted.end_offset and wanted.ends is None:
        return _gap_fault(log, segment, position, offset, wanted.end_offset)
    return _MISSING if wanted.has(offset, None) else ""


def _next_segment(log: Log, segment: int) -> int:
    """Return the base offset of the next segment; 2**63 after the last one."""
    return next((each for each in log.base_offsets if each > segment), 1 << 63)


def rows(
    log: Log, chunk: Chunk, wanted: ScanRange, decoder: Decoder
) -> "Iterator[pa.RecordBatch | Damage]":
    """Decode a chunk; yield a Damage for each damaged range instead of its records."""
    if not _is_continuous(chunk):
        yield from _batch_by_batch(log, chunk, wanted, decoder)
        return
    for part in _parts(chunk):
        try:
            # Decode a part completely before its first row is yielded, so that rows are not
            # repeated after an error.
            found = list(_decoded(part, wanted, decoder))
        except CodecError:
            yield from _batch_by_batch(log, part, wanted, decoder)
        else:
            yield from found


def _decoded(chunk: Chunk, wanted: ScanRange, decoder: Decoder) -> "Iterator[pa.RecordBatch]":
    aborted = None if wanted.aborted is None else overlapping(wanted.aborted, chunk)
    return decoder.batches(chunk.data.data, wanted.start_offset, wanted.end_offset, aborted)


def _parts(chunk: Chunk) -> Iterator[Chunk]:
    """Split a chunk with compressed batches, so that it is not decompressed all at once."""
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

    A transaction whose marker is before the chunk must not be included: its producer may write
    again, and the decoder, which has not seen the marker, would leave out committed records.
    """
    return [
        (each.producer_id, each.first_offset)
        for each in aborted
        if each.first_offset < chunk.next_offset and each.last_offset >= chunk.base_offset
    ]


def count_by_headers(chunk: Chunk, wanted: ScanRange) -> int | None:
    """Return the number of records of a chunk in the range by its headers; None: unknown.

    It is unknown if there are compressed messages of magic 0 or 1, if the range begins or ends
    inside of the chunk, and if headers are damaged. CRCs are not checked.
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
    """Return the last stable offset of [start, end): the start of the first open transaction.

    This reads all headers. Raises SegmentGone, as `chunks`.
    """
    opened: dict[int, int] = {}
    for chunk in chunks(log, ScanRange(start, end), bytes_max):
        if isinstance(chunk, Damage):
            continue
        try:
            headers = scan_headers(chunk.data.data).to_numpy()
        except CodecError:
            continue  # reported when the chunk is read
        for row in headers[(headers["attributes"] & _TRANSACTIONAL) != 0]:
            if row["attributes"] & _CONTROL:
                opened.pop(int(row["producer_id"]), None)
            else:
                opened.setdefault(int(row["producer_id"]), int(row["base_offset"]))
    return min(opened.values(), default=end)


def _is_continuous(chunk: Chunk) -> bool:
    """Return whether headers are readable from the first byte to the last, and offsets ascend."""
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
    log: Log, chunk: Chunk, wanted: ScanRange, decoder: Decoder
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
        next_batch = _next_indexed(log, offset, chunk.next_offset)
        next_offset = chunk.next_offset if next_batch is None else next_batch.base_offset
        place = chunk.position + position
        yield Damage(chunk.segment, place, offset, next_offset, "not a batch that can follow")
        if next_batch is None or next_batch.position <= place:
            return
        position, offset = next_batch.position - chunk.position, next_batch.base_offset


def _batches(chunk: Chunk, position: int, offset: int) -> Iterator[Chunk | Damage]:
    """Yield the batches from a position on while their headers are plausible.

    A base offset is not covered by the CRC. If two base offsets contradict each other, the one that
    is consistent with the batches before and after is used.
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
            # Its last offset may be wrong: then it ends where the next one begins.
            next_batch = after.base_offset if can_follow else offset
            next_batch = chunk.next_offset if end == chunk.data.size else next_batch
            yield _part(chunk, start, end, header.base_offset, next_batch)
            continue
        reason = f"a batch of offset {header.base_offset}, expected {offset} or a few more"
        place = chunk.position + start
        yield Damage(chunk.segment, place, offset, after.base_offset, reason)
        offset = after.base_offset


def _gap_fault(log: Log, base: int, position: int, offset: int, end: int) -> str:
    """Return why offsets [offset, end) are missing after a position, "" for compaction.

    Compaction leaves such a gap only if a batch or a segment follows it, because it never compacts
    the last segment.
    """
    followers = [each for each in log.base_offsets if each > base]
    path = log.path / f"{base:020}.log" if log.path.is_dir() else log.path
    with closing(SegmentFile(path)) as file:
        first, second = islice(chain(file.batches(position, offset), repeat(None)), 2)
        if first is None:
            is_end = bool(followers) and file.has_only_zeros(position)
            is_intact = is_end and followers[0] >= end
            return "" if is_intact else file.fault(position, offset) or "nothing"
        is_last = second is None and file.has_only_zeros(first.end)
    can_follow = first.base_offset >= end and (second is not None or is_last)
    if can_follow and followers and first.last_offset < followers[0]:
        return ""
    return f"a batch of offset {first.base_offset}, expected {offset}"


def _next_indexed(log: Log, offset: int, end: int) -> Batch | None:
    """Return the next batch after a damaged range, found by the index or the name of a file.

    Return None if there is none before `end`.
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
