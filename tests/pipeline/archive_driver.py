"""A program that archives a topic and kills itself -9 where it is told to.

    python -m tests.pipeline.archive_driver ADDRESS TOPIC FOLDER FORMAT PLACE

PLACE is "write" (a task has written its files, its driver does not know yet), "before commit",
"after commit" (each of the second commit), or "link" (a Parquet table's commit is there, its files
are not moved).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.pipeline.jobs import archive_files, archive_tables
from broker.pipeline.jobs.archive import ArchiveOptions, archive
from tests.pipeline.conftest import start_spark
from tests.pipeline.killing import die, remember_driver

PLACES = ("write", "before commit", "after commit")
COMMIT_RECORDS = 400


def dying_on_call(number: int, before: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function replaced so that its n-th call is the last action of the program."""
    calls = 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == number:
            die()
        found = function(*arguments)
        if calls == number:
            die()
        return found

    return call


def main(address: str, topic: str, folder: str, table_format: str, place: str) -> None:
    remember_driver()
    table: Any = {
        "delta": archive_tables.DeltaTable,
        "parquet": archive_tables.ParquetTable,
    }[table_format]
    if place in {"before commit", "after commit"}:
        table.commit = dying_on_call(2, place == "before commit", table.commit)
    if place == "link":
        # An existing table is finished when it is opened, and then by each commit.
        table._finish = dying_on_call(3 if Path(folder).exists() else 2, True, table._finish)
    spark = start_spark()
    if place == "write":
        # Tasks are pickled with the function that they run, so that function must be replaced.
        import broker.pipeline.jobs.archive as job  # noqa: PLC0415

        vars(job)["FileWriter"] = DyingWriter
    options = ArchiveOptions(
        address, topic, Path(folder), table_format, commit_records=COMMIT_RECORDS
    )
    archive(spark, options)


class DyingWriter(archive_files.FileWriter):
    """Write the files, and end the process."""

    def write(self, *arguments: Any) -> Any:
        super().write(*arguments)
        die()


if __name__ == "__main__":
    main(*sys.argv[1:])
