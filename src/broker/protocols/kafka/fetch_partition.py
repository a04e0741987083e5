"""Reads whole batches of one partition, for Fetch since v4."""

from typing import TYPE_CHECKING

from broker.codec import scan_headers
from broker.core.logs.log import Log
from broker.model.compressions import ZSTD
from broker.model.errors import ErrorCode, RequestError, StorageError

if TYPE_CHECKING:
    from broker.codec import bodies

_CODEC = 0x07


def read_partition(
    log: Log,
    wanted: "bodies.FetchRequestPartition",
    *,
    size_max: int,
    at_least_one: bool,
    is_committed: bool,
    knows_zstd: bool,
) -> "bodies.FetchResponsePartition":
    """Return the response for one partition; RequestError is its answer.

    With `is_committed` only committed records are read, and with the list of aborted transactions.
    """
    fields: bodies.FetchResponsePartition = {
        "partition_index": wanted["partition"],
        "error_code": 0,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "log_start_offset": log.log_start_offset,
        "aborted_transactions": [] if is_committed else None,
        "records": b"",
    }
    diverging = _diverging_epoch(log, wanted)
    if diverging:
        return {**fields, "diverging_epoch": diverging}
    offset = wanted["fetch_offset"]
    if offset > log.log_end_offset and log.is_follower:
        raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE)  # its leader may have it
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    end = log.last_stable_offset if is_committed else log.high_watermark
    if offset >= end:
        return fields
    try:
        fields["records"] = records = log.read(offset, size_max, at_least_one, end)
        if is_committed and records:
            # Without this list, aborted records would be delivered.
            aborted = log.aborted_transactions(offset, scan_headers(records)[-1].last_offset + 1)
            fields["aborted_transactions"] = [
                {"producer_id": producer_id, "first_offset": first}
                for producer_id, first, _ in aborted
            ]
    except StorageError as error:
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    if not knows_zstd and any(
        header.attributes & _CODEC == ZSTD.number for header in scan_headers(records)
    ):
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return fields


def _diverging_epoch(
    log: Log, wanted: "bodies.FetchRequestPartition"
) -> "bodies.FetchResponseDivergingEpoch | None":
    """Return the end of the last common epoch if the client has read truncated data (KIP-595)."""
    epoch = wanted["last_fetched_epoch"]
    if epoch == -1:
        return None
    known, end = log.epoch_end(epoch)
    if known == -1:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if known == epoch and end >= wanted["fetch_offset"]:
        return None
    return {"epoch": known, "end_offset": end}
