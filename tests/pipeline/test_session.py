"""A session as a program gets it: each in its own process, with a JVM."""

import subprocess
import sys

import pytest

from tests.pipeline import java_classes
from tests.pipeline.killing import TIMEOUT_S

pytest.importorskip("pyspark")
pytestmark = pytest.mark.jvm

WORKS = """
from broker.pipeline.session import session
spark = session("local[2]", options={"spark.driver.memory": "512m"})
print(spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.shuffle.partitions"))
rows = spark.range(100).selectExpr("id % 3 AS k").groupBy("k").count().collect()
print(sum(row["count"] for row in rows))
print(spark.sparkContext.parallelize([0]).map(lambda _: __import__("sys").executable).first())
assert session("local[1]") is spark
spark.stop()
"""
MADE_BEFORE = """
from pyspark.sql import SparkSession
from broker.pipeline.session import session
options = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": "5",
           "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
           "spark.driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.master("local[1]")
for name, value in options.items():
    builder = builder.config(name, value)
mine = builder.getOrCreate()
assert session("local[2]", options={"spark.sql.shuffle.partitions": "9"}) is mine
print(mine.conf.get("spark.sql.session.timeZone"), mine.conf.get("spark.sql.shuffle.partitions"))
mine.stop()
"""


def run(program: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=java_classes.environment(),
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_new_session_has_time_zone_utc_and_workers_of_this_python() -> None:
    assert run(WORKS) == ["UTC 4", "100", sys.executable]


def test_an_existing_session_is_unchanged() -> None:
    assert run(MADE_BEFORE) == ["Asia/Tokyo 5"]
