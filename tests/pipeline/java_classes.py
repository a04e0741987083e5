"""Spark's classes in the form in which a JVM maps them: it starts with half of the CPU time.

The archive (class data sharing, JEP 350) is written once for a Java and a PySpark, by this program,
and kept under the git-ignored build/ folder. Where a Java cannot write or read one, a JVM starts as
it always did.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from broker.pipeline.java import find_java
from tests.compatibility.java.tools import SHORT_LIVED
from tests.compatibility.programs import BUILD, FETCH_TIMEOUT_S, one_at_a_time


@cache
def java_options() -> tuple[str, ...]:
    """The options of a JVM of the tests: soon ready, and with the archive if there can be one."""
    java = find_java()
    if java.home is not None:  # a wrapper around a Java that was trimmed
        return SHORT_LIVED
    archive = BUILD / "spark-classes" / f"{_fingerprint()}.jsa"
    with one_at_a_time():
        if not archive.exists():
            _make(archive)
    if not archive.exists():
        return SHORT_LIVED
    return (*SHORT_LIVED, f"-XX:SharedArchiveFile={archive}")


def environment() -> dict[str, str]:
    """The environment of a program that makes a session as users do, and is to start as soon."""
    options = f'--conf "spark.driver.extraJavaOptions={" ".join(java_options())}" pyspark-shell'
    return os.environ | {"PYSPARK_SUBMIT_ARGS": options}


def _fingerprint() -> str:
    """What an archive is good for: one Java, and the files of one PySpark as they are."""
    import pyspark  # noqa: PLC0415 - where it is installed

    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    said = subprocess.run([java, "-version"], check=True, capture_output=True, text=True)
    jars = Path(pyspark.__file__).parent / "jars"
    text = f"{said.stderr} {jars} {jars.stat().st_mtime_ns} {SHORT_LIVED}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _make(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    for old in archive.parent.glob("*.jsa"):  # of another Java or PySpark
        old.unlink()
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        draft = Path(folder, "draft.jsa")
        ended = subprocess.run(
            [sys.executable, "-m", __name__, str(draft)],
            check=False,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(BUILD.parent), *sys.path])},
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        if draft.exists():
            draft.rename(archive)


def main(draft: str) -> None:
    """Do a little of what tests do, and end the JVM: it writes the classes that it has loaded."""
    from pyspark import SparkContext  # noqa: PLC0415

    from tests.pipeline.conftest import local_session  # noqa: PLC0415

    spark = local_session((*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={draft}"))
    rows = spark.range(100).selectExpr("id", "id % 3 AS k", "binary(concat('b', id)) AS b")
    rows.groupBy("k").count().collect()
    rows.mapInArrow(lambda batches: batches, rows.schema).collect()
    folder = str(Path(draft).parent / "rows")
    rows.write.parquet(folder)
    query = (
        spark.readStream.schema(rows.schema)
        .parquet(folder)
        .writeStream.format("noop")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(FETCH_TIMEOUT_S)
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(FETCH_TIMEOUT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
