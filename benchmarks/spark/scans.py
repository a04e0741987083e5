"""Reads of segments without Spark: an audit, and a count by batch headers."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark.rows import Environment, Row, simple
from broker.model.limits import SCAN_CHUNK_BYTES
from broker.pipeline.jobs.audit import audit
from broker.pipeline.segments import scan
from broker.pipeline.segments.planning import stored_partitions
from broker.segments import Log


def rows(environment: Environment, snapshot: Path) -> Iterator[Row]:
    """Yield the audit with one and two threads, and the count."""
    records = environment.records["small"]

    def check(found: int) -> None:
        if found != records:
            raise BenchmarkError(f"found {found} of {records} records")

    def audited(threads: int) -> None:
        check(audit(snapshot, topics=["small"], workers=threads).totals["records"])

    yield Row("audit, one thread", records, simple(lambda: audited(1)))
    yield Row("audit, two threads", records, simple(lambda: audited(2)))
    yield Row("count by headers", records, simple(lambda: check(_count(snapshot))))


def _count(snapshot: Path) -> int:
    found = 0
    for each in stored_partitions(snapshot, lambda topic: topic == "small"):
        wanted = scan.ScanRange(each.start_offset, each.end_offset, (), each.ends)
        with Log(each.folder) as log:
            for chunk in scan.chunks(log, wanted, SCAN_CHUNK_BYTES):
                if isinstance(chunk, scan.Damage):
                    raise BenchmarkError(f"{each.folder} is damaged: {chunk}")
                found += scan.count_by_headers(chunk, wanted) or 0
    return found
