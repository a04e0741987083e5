"""Logs for tests of compaction: written record by record, compacted in this process."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from broker._native.log.partition_log import PartitionLog
from broker.codec import records
from broker.storage.files import swap
from broker.storage.files.swap import Swap
from broker.storage.maintenance import compactor
from broker.storage.maintenance.compactor import Job
from tests.support.batches import batch_of
from tests.support.native_log import NOW_MS, Logs, appended

Writes: TypeAlias = Sequence[tuple[bytes, bytes | None]]
SEGMENT_BYTES = 400


def written(logs: Logs, writes: Writes, **settings: int) -> PartitionLog:
    """Return a log with a batch for each write, all synced, the active segment empty."""
    log = logs.create(segment_bytes_max=SEGMENT_BYTES, index_interval_bytes=100, **settings)
    write(logs, log, writes)
    log.roll()
    logs.settle(log)
    return log


def write(logs: Logs, log: PartitionLog, writes: Writes) -> None:
    """Append a batch for each write."""
    for place, (key, value) in enumerate(writes):
        appended(log, batch_of([(key, value, [])], NOW_MS + place))
    logs.settle(log)


def job_of(log: PartitionLog, groups: list[list[int]] | None = None, **fields: Any) -> Job:
    """Return a compaction job over all sealed segments, one group per segment unless grouped."""
    sizes = {base: size for base, size, _ in log.segment_entries[:-1]}
    job = Job(
        folder=log.folder,
        groups=[
            [(base, sizes[base]) for base in group] for group in groups or [[b] for b in sizes]
        ],
        first_dirty_offset=0,
        end_offset=log.segment_entries[-1][0],
        map_bytes=1 << 20,
        now_ms=NOW_MS,
        delete_retention_ms=1_000,
        index_interval_bytes=100,
        decompressed_bytes_max=1 << 20,
        producer_ends=log.producer_ends,
        aborted=[],
        parent_pid=os.getpid(),
    )
    return job._replace(**fields)


def compacted(job: Job) -> tuple[list[Swap], dict[str, Any]]:
    """Run a job in this process: return the swaps it has prepared and its last message."""
    messages: list[dict[str, Any]] = []
    compactor.compact(job, messages.append)
    swaps = [
        Swap(Path(job.folder), message["old"], message["new"])
        for message in messages
        if message["kind"] == "cleaned"
    ]
    assert messages[-1]["kind"] == "done"
    return swaps, messages[-1]


def swap_in(log: PartitionLog, ready: Swap) -> None:
    """Swap a compacted segment in, as the broker does."""
    swap.commit(ready)
    swap.install(ready)
    log.replace(ready.old, ready.new)
    swap.finish(ready)


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of every record, read batch by batch as a consumer does."""
    found, offset = [], log.log_start_offset
    while offset < log.high_watermark:
        rows = list(records(log.read(offset, 1)))
        found += [(row.offset, row.key, row.value) for row in rows if row.offset >= offset]
        offset = end_of_batch(log.read(offset, 1))
    return found


def end_of_batch(data: bytes) -> int:
    """Return the offset after the first batch."""
    return int.from_bytes(data[:8]) + int.from_bytes(data[23:27]) + 1


def newest(writes: Writes) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the last write of each key and its offset."""
    return {key: (offset, value) for offset, (key, value) in enumerate(writes)}
