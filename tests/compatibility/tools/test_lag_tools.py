"""Other people's programs that show the lag of groups: kafkatop, and an exporter for Prometheus.

kafkatop (librdkafka) asks for groups, their offsets and the ends of partitions. The exporter
(kafka-python) reads the topic `__consumer_offsets` itself, as Burrow and kminion can.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.compatibility.programs import (
    BUILD,
    OLD_KAFKA_PYTHON,
    RUN_TIMEOUT_S,
    UnavailableError,
    fetch_with,
    one_at_a_time,
)
from tests.support.batches import batch_of
from tests.support.broker_process import Broker, wait_until
from tests.support.ports import free_port
from tests.support.wire_client import WireClient
from tests.support.wire_requests import commit_offset, create_topic, produce

# The first run may fetch the programs.
pytestmark = pytest.mark.timeout(300)

KAFKATOP = ("kafkatop==1.16", "humanize==4.17.0", "readchar==4.2.2")
EXPORTER = (
    "prometheus-kafka-consumer-group-exporter==0.5.5",
    "kafka-python==2.0.2",
    "jog==0.1.1",
    "javaproperties==0.8.2",
)
RECORDS, COMMITTED = 5, 2


@one_at_a_time()
def fetched(name: str, packages: Sequence[str]) -> dict[str, str]:
    """Return an environment in which a program is found, fetched first if need be."""
    folder = BUILD / name
    if not (folder / "bin").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        try:
            fetch_with([*install, str(folder), *packages], BUILD)
        except UnavailableError as error:
            pytest.skip(str(error))
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.fixture
def group(broker: Broker, topic: str) -> str:
    """A group that has committed an offset before the end of a partition."""
    name = f"readers-of-{topic}"
    with WireClient(broker.address) as client:
        create_topic(client, topic)
        for number in range(RECORDS):
            record = batch_of([(b"k", b"%d" % number, ())], 1_700_000_000_000)
            assert produce(client, topic, record)[0] == 0
        wait_until(lambda: commit_offset(client, name, topic, COMMITTED) == 0, "an offset")
    return name


def test_kafkatop_shows_the_lag_of_a_group(broker: Broker, topic: str, group: str) -> None:
    environment = fetched("kafkatop", KAFKATOP)

    done = subprocess.run(
        [
            *(sys.executable, "-m", "kafkatop", "--kafka-broker", broker.address),
            *("--summary-json", "--all", "--group-filter-pattern", f"^{group}$"),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lag = RECORDS - COMMITTED
    shown = json.loads(done.stdout)[group]["topics"][topic]
    assert shown == {"partitions": 1, "lag_max": lag, "lag_min": lag}


@OLD_KAFKA_PYTHON
def test_an_exporter_reads_commits_from_their_topic(broker: Broker, topic: str, group: str) -> None:
    environment, port = fetched("group-exporter", EXPORTER), free_port()
    intervals = ("--topic-interval", "--high-water-interval", "--low-water-interval")
    found: dict[str, float] = {}

    def is_shown() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                text = answer.read().decode()
        except OSError:
            return False
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels == {"group": group, "topic": topic, "partition": "0"}:
                    found[sample.name] = sample.value
        return "kafka_consumer_group_lag" in found

    with subprocess.Popen(
        [
            *(sys.executable, "-m", "prometheus_kafka_consumer_group_exporter"),
            *("-b", broker.address, "-p", str(port), "--from-start"),
            *(word for each in intervals for word in (each, "1")),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as exporter:
        try:
            wait_until(is_shown, "the exporter shows the lag", RUN_TIMEOUT_S)
        finally:
            exporter.kill()
    assert found["kafka_consumer_group_offset"] == COMMITTED
    assert found["kafka_consumer_group_lag"] == RECORDS - COMMITTED
    assert found["kafka_consumer_group_commits_total"] == 1
