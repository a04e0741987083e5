"""Batches for tests of storage and readers."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import crc32c

from broker.codec import BatchHeader, records, scan_headers
from broker.codec.encoding import encode
from broker.model.limits import BATCH_BYTES_MAX
from tests.oracles.record_batch_oracle import Header

Headers: TypeAlias = Sequence[tuple[bytes, bytes | None]]

# A batch without records, as compaction leaves it.
EMPTY = Header(last_offset_delta=-1, record_count=0).encode(b"")


def batch_of(
    records: Iterable[tuple[bytes | None, bytes | None, Headers]],
    timestamp: int,
    *,
    codec: int = 0,
    **fields: Any,
) -> bytes:
    """Return one batch of records that share one timestamp (ms).

    The other fields are encode's. `codec` is what the attributes claim: the records stay
    uncompressed.
    """
    options = {"leader_epoch": 0, "batch_bytes_max": BATCH_BYTES_MAX, **fields}
    [batch] = encode(records, timestamp_ms=timestamp, **options)
    attributes = int.from_bytes(batch[21:23]) | codec
    covered = attributes.to_bytes(2) + batch[23:]
    return batch[:17] + crc32c.crc32c(covered).to_bytes(4) + covered


def header(data: bytes, position: int = 0) -> BatchHeader:
    """Return the header of the batch at a position."""
    end = position + 12 + int.from_bytes(data[position + 8 : position + 12])
    return scan_headers(data[position:end])[0]


def records_of(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, Any]]:
    """Return (offset, timestamp, key, value, headers) of every record."""
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers) for each in records(data)
    ]
