"""Decodes record batches to Arrow batches with the columns that a reader needs, and filters them.

A chunk of uncompressed batches is decoded at once. The decompressed size of compressed batches is
not known before, so they are decoded a few at a time, and fewer if they exceed the limit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker import codec
from broker.codec import BatchHeader, Columns
from broker.model.errors import CodecError, LimitExceeded
from broker.model.limits import PIPELINE_BATCH_ROWS, PIPELINE_COMPRESSED_BYTES
from broker.pipeline.schema import arrow_batch, decoded_columns

if TYPE_CHECKING:
    import pyarrow as pa

_CODEC_BITS, _CONTROL_BIT = 0x07, 0x20


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records and columns to decode.

    Attributes:
        columns: their names, in order (see schema.py).
        min_timestamp: of a record, ms; None: any.
        max_timestamp: of a record, ms, inclusive; None: any.
        keys: bytes: a prefix of the key; a tuple: the allowed keys; None: any.
    """

    columns: tuple[str, ...]
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    keys: bytes | tuple[bytes, ...] | None = None


class Decoder:
    """Decodes the chunks of one partition, one after the other, and reuses its memory."""

    def __init__(self, topic: str, partition: int, selection: Selection) -> None:
        """Create a decoder; topic and partition appear in rows and in errors."""
        self._topic = topic
        self._partition = partition
        self._selection = selection
        self._columns = decoded_columns(selection.columns)
        # Spark uses one result while the next is made, so memory is taken from the one before.
        self._older: Columns | None = None
        self._newer: Columns | None = None

    def batches(
        self,
        data: memoryview,
        start: int,
        end: int,
        aborted: Iterable[tuple[int, int]] | None = None,
    ) -> Iterator["pa.RecordBatch"]:
        """Yield the records of whole batches, PIPELINE_BATCH_ROWS or fewer at a time.

        Args:
            data: the batches.
            start: records before this offset are left out.
            end: records from this offset on are left out.
            aborted: as in decode_columns; those of one Fetch response.

        Raises:
            CodecError: damaged batches; the message has the partition and the offset.
        """
        headers = list(codec.scan_headers(data))
        left = _pieces(headers)
        while left:
            piece = left.pop()
            try:
                batch = self._decoded(data, piece, start, end, aborted)
            except LimitExceeded as error:
                if len(piece) == 1:
                    raise self._with_location(error, piece) from error
                half = len(piece) // 2
                left += [piece[half:], piece[:half]]
                continue
            except CodecError as error:
                raise self._with_location(error, piece) from error
            if left:
                aborted = still_aborted(aborted, piece)
            parts = -(-batch.num_rows // PIPELINE_BATCH_ROWS)
            for part in range(parts):  # of similar size: a small rest costs as much as a batch
                first, last = (batch.num_rows * each // parts for each in (part, part + 1))
                yield batch.slice(first, last - first)

    def _decoded(
        self,
        data: memoryview,
        headers: list[BatchHeader],
        start: int,
        end: int,
        aborted: Iterable[tuple[int, int]] | None,
    ) -> "pa.RecordBatch":
        selection = self._selection
        reuse, self._older = self._older, None  # its memory is taken over even by a call that fails
        columns = codec.decode_columns(
            data[headers[0].position : headers[-1].position + headers[-1].size],
            columns=self._columns,
            min_offset=start,
            max_offset=end - 1,
            min_timestamp=selection.min_timestamp,
            max_timestamp=selection.max_timestamp,
            key_filter=selection.keys,
            aborted=aborted,
            reuse=reuse,
        )
        self._older, self._newer = self._newer, columns
        return arrow_batch(columns, selection.columns, self._topic, self._partition)

    def _with_location(self, error: CodecError, headers: list[BatchHeader]) -> CodecError:
        where = f"{self._topic}-{self._partition}, in the batches from offset"
        return type(error)(f"{where} {headers[0].base_offset} on: {error}")


def _pieces(headers: list[BatchHeader]) -> list[list[BatchHeader]]:
    """Divide batches into those that are decoded at once, the last ones first."""
    if headers and not any(each.attributes & _CODEC_BITS for each in headers):
        return [headers]
    pieces: list[list[BatchHeader]] = []
    size = 0
    for each in headers:
        size += each.size
        if pieces and size <= PIPELINE_COMPRESSED_BYTES:
            pieces[-1].append(each)
        else:
            pieces.append([each])
            size = each.size
    return pieces[::-1]


def still_aborted(
    aborted: Iterable[tuple[int, int]] | None, decoded_headers: Iterable[BatchHeader]
) -> list[tuple[int, int]] | None:
    """Return the aborted transactions that do not end in batches already decoded.

    A transaction ends at its producer's next control batch. If it stayed in the list after that,
    the decoder would leave out records that the same producer has committed later.
    """
    if aborted is None:
        return None
    left = list(aborted)
    for each in decoded_headers:
        if each.attributes & _CONTROL_BIT and each.magic > 1:
            left = [
                (producer, first)
                for producer, first in left
                if producer != each.producer_id or first > each.base_offset
            ]
    return left
