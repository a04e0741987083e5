"""Topics into Parquet files: by Spark's writer over both sources, and by our own job.

All of them compress with zstd.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark import reads
from benchmarks.spark.rows import OURS, Job, Place, Row
from broker import pipeline


def rows(place: Place) -> Iterator[Row]:
    """Yield every way to a table."""
    records = place.records["small"]
    yield Row("Parquet", records, partial(_spark_writes, place, is_stock=False))
    yield Row("archive", records, partial(_we_write, place))
    if place.has_stock:
        yield Row("stock Parquet", records, partial(_spark_writes, place, is_stock=True))


@contextmanager
def _spark_writes(place: Place, *, is_stock: bool) -> Iterator[Job]:
    folder, records = place.folder / "parquet", place.records["small"]
    if is_stock:
        frame = reads.stock(place, "small", OURS)
    else:
        options = place.options(OURS) | {"subscribe": "small"}
        frame = place.spark.read.format(OURS).options(**options).load()

    def job() -> None:
        frame.write.option("compression", "zstd").parquet(str(folder))

    try:
        yield job
        found = place.spark.read.parquet(str(folder)).count()
        if found != records:
            raise BenchmarkError(f"{found} of {records} rows are in the Parquet files")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _we_write(place: Place) -> Iterator[Job]:
    folder, records = place.folder / "archive", place.records["small"]
    options = pipeline.ArchiveOptions(str(place.address(OURS)), "small", folder)

    def job() -> None:
        found = pipeline.archive(place.spark, options).totals["records"]
        if found != records:
            raise BenchmarkError(f"{found} of {records} rows are in the archive")

    try:
        yield job
    finally:
        shutil.rmtree(folder, ignore_errors=True)
