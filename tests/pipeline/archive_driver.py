"""A program that archives a topic and kills itself -9 where it is told to.

    python archive_driver.py ADDRESS TOPIC FOLDER FORMAT KILL

KILL is "write" (a task has written its files, its driver does not know yet), "before commit",
"after commit" (each of the second commit), "link" (a Parquet table's commit is there, its files are
not moved), or "never".
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.pipeline.jobs import archive_files, archive_tables
from broker.pipeline.jobs.archive import ArchiveOptions, archive
from broker.pipeline.session import session

COMMIT_RECORDS = 400
DRIVER, KILL = "ARCHIVE_DRIVER_PID", "ARCHIVE_DRIVER_KILL"


def die() -> None:
    """Kill the driver and its JVM, then the workers: their daemon has made a group of its own."""
    os.killpg(os.getpgid(int(os.environ[DRIVER])), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def dying_on_call(number: int, before: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, that is the last thing its program does, on its so-manieth call."""
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


def main(address: str, topic: str, folder: str, table_format: str, kill: str) -> None:
    os.environ[DRIVER] = str(os.getpid())  # workers inherit both
    os.environ[KILL] = kill
    table: Any = {
        "delta": archive_tables.DeltaTable,
        "parquet": archive_tables.ParquetTable,
    }[table_format]
    if kill in {"before commit", "after commit"}:
        table.commit = dying_on_call(2, kill == "before commit", table.commit)
    if kill == "link":
        table._finish = dying_on_call(2, True, table._finish)
    spark = session("local[2]", options={"spark.ui.showConsoleProgress": "false"})
    if kill == "write":
        # Tasks are pickled with the function that they run, so that is what has to be another one.
        import broker.pipeline.jobs.archive as job  # noqa: PLC0415

        vars(job)["FileWriter"] = DyingWriter
    options = ArchiveOptions(
        address, topic, Path(folder), table_format, commit_records=COMMIT_RECORDS
    )
    archive(spark, options)


class DyingWriter(archive_files.FileWriter):
    """Writes its files, and that is all."""

    def write(self, *arguments: Any) -> Any:
        super().write(*arguments)
        die()


if __name__ == "__main__":
    main(*sys.argv[1:])
