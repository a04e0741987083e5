"""Batches for tests of those who store and read them."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import crc32c

from broker.codec.encoding import encode
from broker.model.limits import BATCH_BYTES_MAX
from tests.oracles.record_batch_oracle import Header

Headers: TypeAlias = Sequence[tuple[bytes, bytes | None]]

# Of no records, as compaction leaves them.
EMPTY = Header(last_offset_delta=-1, record_count=0).encode(b"")


def batch_of(
    records: Iterable[tuple[bytes | None, bytes | None, Headers]],
    timestamp: int,
    *,
    codec: int = 0,
    **fields: Any,
) -> bytes:
    """Return one batch of records that share one time (ms); the other fields are encode's.

    `codec` is what the attributes claim: the records stay as they are.
    """
    options = {"leader_epoch": 0, "batch_bytes_max": BATCH_BYTES_MAX, **fields}
    [batch] = encode(records, timestamp_ms=timestamp, **options)
    attributes = int.from_bytes(batch[21:23]) | codec
    covered = attributes.to_bytes(2) + batch[23:]
    return batch[:17] + crc32c.crc32c(covered).to_bytes(4) + covered
