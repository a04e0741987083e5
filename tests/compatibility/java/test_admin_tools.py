"""Apache Kafka's administration tools (newest release) against this broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

CONFIG = "kafka.admin.ConfigCommand"
TOPIC = "org.apache.kafka.tools.TopicCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with three records."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        wire_requests.produce(client, topic, Batch([b"a", b"b", b"c"]).encode())
    return topic


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


def test_config_command_alters_and_describes_a_topic(
    java: JavaTools, broker: Broker, made: str
) -> None:
    of = (*at(broker), "--entity-type", "topics", "--entity-name", made)

    altered = java.run(
        CONFIG, *of, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"
    )
    described = java.run(CONFIG, *of, "--describe")
    java.run(CONFIG, *of, "--alter", "--delete-config", "retention.ms")
    everything = java.run(CONFIG, *of, "--describe", "--all")

    assert "Completed updating config" in altered
    assert "retention.ms=5000" in described
    assert "cleanup.policy=compact,delete" in described
    assert "segment.bytes" not in described
    assert re.search(
        r"retention\.ms=604800000 .*DEFAULT_CONFIG:log\.retention\.hours=168", everything
    )
    assert "cleanup.policy=compact,delete" in everything


def test_config_command_shows_why_a_value_is_invalid(
    java: JavaTools, broker: Broker, made: str
) -> None:
    of = (*at(broker), "--entity-type", "topics", "--entity-name", made)

    with pytest.raises(
        AssertionError, match=r"InvalidConfigurationException.*retention\.ms='-7'.*-1"
    ):
        java.run(CONFIG, *of, "--alter", "--add-config", "retention.ms=-7")


def test_config_command_describes_a_broker(java: JavaTools, broker: Broker) -> None:
    described = java.run(
        CONFIG, *at(broker), "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )

    assert "num.partitions=1" in described


def test_topic_command_adds_partitions_and_shows_settings(
    java: JavaTools, broker: Broker, made: str
) -> None:
    java.run(TOPIC, *at(broker), "--alter", "--topic", made, "--partitions", "4")
    described = java.run(TOPIC, *at(broker), "--describe", "--topic", made)

    assert re.search(rf"Topic: {made}\s.*PartitionCount: 4", described)
    assert len(re.findall(rf"Topic: {made}\s+Partition: \d\s+Leader: \d+", described)) == 4


def test_topic_command_creates_a_topic_with_settings(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    java.run(TOPIC, *at(broker), "--create", "--topic", topic, "--config", "compression.type=zstd")
    described = java.run(TOPIC, *at(broker), "--describe", "--topic", topic)

    assert "compression.type=zstd" in described


def test_delete_records_command_moves_the_start_that_get_offsets_sees(
    java: JavaTools, broker: Broker, made: str, tmp_path: Path
) -> None:
    wanted = {"version": 1, "partitions": [{"topic": made, "partition": 0, "offset": 2}]}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))

    deleted = java.run(
        "org.apache.kafka.tools.DeleteRecordsCommand",
        *(*at(broker), "--offset-json-file", str(tmp_path / "offsets.json")),
    )
    starts = java.run(OFFSETS, *at(broker), "--topic", made, "--time", "earliest")
    ends = java.run(OFFSETS, *at(broker), "--topic", made, "--time", "latest")

    assert re.search(rf"{made}-0\s+low_watermark: 2", deleted), deleted
    assert f"{made}:0:2" in starts
    assert f"{made}:0:3" in ends


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_dump_log_segments_reads_batches_that_the_broker_compressed_and_stamped(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], topic: str, codec: str
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, topic, compression_type=codec, message_timestamp_type="LogAppendTime"
        )
        for _ in range(3):
            wire_requests.produce(client, topic, Batch([b"words " * 50] * 20).encode())
    assert broker.stop() == 0
    [segment] = (broker.data_dir / f"{topic}-0").glob("*.log")

    dump = java.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--print-data-log", "--files", str(segment)),
    )

    assert len(re.findall(rf"compresscodec: {codec} .*isvalid: true", dump)) == 3, dump[:2_000]
    assert (
        len(re.findall(r"^\| offset: \d+ LogAppendTime: \d+ .*payload: words", dump, re.MULTILINE))
        == 60
    )
    for complaint in ("isvalid: false", "Mismatches", "Corrupt", "Exception"):
        assert complaint not in dump


def test_log_dirs_command_reports_sizes(java: JavaTools, broker: Broker, made: str) -> None:
    output = java.run(
        "org.apache.kafka.tools.LogDirsCommand",
        *(*at(broker), "--describe", "--topic-list", made),
    )

    described = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    [directory] = described["brokers"][0]["logDirs"]
    [partition] = directory["partitions"]
    assert directory["error"] is None
    assert (partition["partition"], partition["offsetLag"]) == (f"{made}-0", 0)
    assert partition["size"] > 61
