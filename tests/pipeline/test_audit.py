"""`broker pipeline audit` of a real broker's data, in threads and by Spark."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from broker.pipeline.jobs import snapshot
from broker.pipeline.jobs.audit import audit
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

StartBroker = Callable[..., BrokerProcess]
RECORDS = 6_000


@pytest.fixture
def folder(start_broker: StartBroker, tmp_path: Path, topic: str) -> Path:
    """Return a snapshot of a topic that an idempotent producer has filled."""
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2, segment_bytes="65536")
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    for each in range(RECORDS):
        producer.produce(topic, b"value %d" % each + bytes(50), partition=each % 2)
        if each % 500 == 499:
            assert producer.flush(20) == 0
    snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address)
    return tmp_path / "snapshot"


def test_an_audit_finds_no_fault_in_what_a_broker_wrote(folder: Path) -> None:
    report = audit(folder)

    assert report.is_well
    assert report.totals["records"] == RECORDS
    assert report.totals["segments"] > 4
    assert not any(sum(row[9:]) for row in report.rows)


def test_an_audit_with_spark_finds_the_same(spark: "SparkSession", folder: Path) -> None:
    in_threads, by_spark = audit(folder), audit(folder, spark=spark)

    assert by_spark.rows == in_threads.rows


def test_the_command_reports_damage_and_returns_1(folder: Path) -> None:
    file = min(folder.glob("*-0/*.log"))
    content = bytearray(file.read_bytes())
    content[5_000] ^= 1
    file.unlink()  # a link: the broker's file must not change
    file.write_bytes(content)

    ended = subprocess.run(
        [sys.executable, "-m", "broker", "pipeline", "audit", str(folder), "-o", "json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    report = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert report["totals"]["faulty_segments"] == 1
    assert [row["crc_errors"] for row in report["rows"]].count(1) == 1
    assert str(file) in report["problems"][0]
    assert "segments" in ended.stderr


def test_the_command_reports_an_invalid_folder(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "broker", "pipeline", "audit", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 2
    assert "give a snapshot or a data directory" in ended.stderr
