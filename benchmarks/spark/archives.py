"""Topics to Parquet files: by Spark's writer from both sources, and by the archive job.

All compress with zstd.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.spark import reads
from benchmarks.spark.rows import OURS, Environment, Job, Row
from broker import pipeline


def rows(environment: Environment) -> Iterator[Row]:
    """Yield a row for each way to write a table."""
    records = environment.records["small"]
    yield Row("Parquet", records, partial(_spark_writes, environment, is_stock=False))
    yield Row("archive", records, partial(_we_write, environment))
    if environment.has_stock:
        yield Row("stock Parquet", records, partial(_spark_writes, environment, is_stock=True))


@contextmanager
def _spark_writes(environment: Environment, *, is_stock: bool) -> Iterator[Job]:
    folder, records = environment.folder / "parquet", environment.records["small"]
    if is_stock:
        frame = reads.stock(environment, "small", OURS)
    else:
        options = environment.options(OURS) | {"subscribe": "small"}
        frame = environment.spark.read.format(OURS).options(**options).load()

    def job() -> None:
        frame.write.option("compression", "zstd").parquet(str(folder))

    try:
        yield job
        found = environment.spark.read.parquet(str(folder)).count()
        if found != records:
            raise BenchmarkError(f"{found} of {records} rows are in the Parquet files")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _we_write(environment: Environment) -> Iterator[Job]:
    folder, records = environment.folder / "archive", environment.records["small"]
    options = pipeline.ArchiveOptions(str(environment.address(OURS)), "small", folder)

    def job() -> None:
        found = pipeline.archive(environment.spark, options).totals["records"]
        if found != records:
            raise BenchmarkError(f"{found} of {records} rows are in the archive")

    try:
        yield job
    finally:
        shutil.rmtree(folder, ignore_errors=True)
