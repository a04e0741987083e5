"""Apache Kafka's command line tools (Java clients of the newest release) against this broker."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker._native.log import recovery
from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.batches import batch_of
from tests.support.broker_process import Broker, BrokerProcess
from tests.support.native_log import NOW_MS, Logs
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

RECORDS = 20_000
FILE_KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


def test_a_topic_is_created_described_and_deleted(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    command = "org.apache.kafka.tools.TopicCommand"

    java.run(command, *at(broker), "--create", "--topic", topic, "--partitions", "3")
    described = java.run(command, *at(broker), "--describe", "--topic", topic)
    listed = java.run(command, *at(broker), "--list")
    java.run(command, *at(broker), "--delete", "--topic", topic)
    listed_after = java.run(command, *at(broker), "--list")

    assert re.search(rf"Topic: {topic}\s.*PartitionCount: 3", described)
    assert len(re.findall(rf"Topic: {topic}\s+Partition: \d\s+Leader: \d+", described)) == 3
    assert topic in listed.split()
    assert topic not in listed_after.split()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_and_consumer_performance_tools_count_the_same_records(
    java: JavaTools, broker: Broker, topic: str, compression: str
) -> None:
    create(broker, topic, partitions=2)

    produced = java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", "100"),
        *("--throughput", "-1", *at(broker)),
        *("--command-property", "acks=all", f"compression.type={compression}"),
    )
    consumed = java.run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--topic", topic, "--num-records", str(RECORDS), "--timeout", "20000", *at(broker)),
    )

    assert f"{RECORDS} records sent" in produced
    # Other lines may be warnings of clients that an earlier tool has left in the JVM.
    rows = re.findall(r"^\d{4}-\d\d-\d\d .*$", consumed, re.MULTILINE)
    assert [row.split(", ")[4] for row in rows] == [str(RECORDS)], consumed


def test_the_console_consumer_prints_what_the_console_producer_read(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    create(broker, topic)
    lines = [f"key-{i}:value-{i}" for i in range(100)]

    java.run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--topic", topic, *at(broker)),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="\n".join(lines) + "\n",
    )
    printed = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "100", *at(broker)),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )

    assert [line for line in printed.splitlines() if line.startswith("key-")] == lines


def test_the_verifiable_producer_gets_every_ack(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    create(broker, topic)

    said = java.run_alone(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--topic", topic, "--max-messages", "500", "--acks", "-1", *at(broker)),
    )

    assert '"sent":500' in said
    assert '"acked":500' in said


def test_get_offsets_reports_the_log_start_and_end(
    java: JavaTools, broker: Broker, topic: str
) -> None:
    create(broker, topic)
    with WireClient(broker.address) as client:
        wire_requests.produce(client, topic, Batch([b"a", b"b", b"c"]).encode())

    ends = java.run("org.apache.kafka.tools.GetOffsetShell", *at(broker), "--topic", topic)
    starts = java.run(
        "org.apache.kafka.tools.GetOffsetShell", *at(broker), "--topic", topic, "--time", "-2"
    )

    assert f"{topic}:0:3" in ends
    assert f"{topic}:0:0" in starts


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_dump_log_segments_reads_a_log_of_this_broker(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], topic: str, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}", "log.segment.bytes=1048576")
    create(broker, topic)
    java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", "100"),
        *("--throughput", "-1", *at(broker), "--command-property", "compression.type=none"),
    )
    assert broker.stop() == 0
    segments = sorted((broker.data_dir / f"{topic}-0").glob("*.log"))
    assert len(segments) > 1

    dump = java.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--files", ",".join(map(str, segments))),
    )

    offsets = [int(offset) for offset in re.findall(r"^\|? *offset: (\d+)", dump, re.MULTILINE)]
    assert offsets == list(range(RECORDS))
    assert "isvalid: false" not in dump
    for complaint in ("Mismatches", "invalid bytes", "Corrupt", "Exception"):
        assert complaint not in dump, dump[-2_000:]


def test_dump_log_segments_finds_the_indexes_correct(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker("polylog.durability=os")
    create(broker, topic)
    with WireClient(broker.address) as client:
        for place in range(200):
            batch = Batch([b"x" * 1_000], timestamp=1_700_000_000_000 + place)
            wire_requests.produce(client, topic, batch.encode())
    assert broker.stop() == 0
    folder = broker.data_dir / f"{topic}-0"
    indexes = [*folder.glob("*.index"), *folder.glob("*.timeindex")]
    assert len(indexes) == 2

    dump = java.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--index-sanity-check", "--files", ",".join(map(str, indexes))),
    )
    entries = java.run(
        "org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, indexes))
    )

    assert dump.count("passed sanity check") == 2, dump
    assert len(re.findall(r"^offset: \d+ position: \d+", entries, re.MULTILINE)) > 10
    for complaint in ("Mismatches", "out of order", "not found", "Exception"):
        assert complaint not in entries, entries


def test_dump_log_segments_reads_every_file_of_a_log_with_transactions(
    java: JavaTools, tmp_path: Path
) -> None:
    logs = Logs(tmp_path)
    log = logs.create(segment_bytes_max=2_000, index_interval_bytes=200)
    for round_ in range(10):
        for producer_id in (1, 2):
            log.admit_transaction(producer_id, 0)
            sent = transactional(producer_id, base_sequence=3 * round_, count=3)
            assert log.append(sent)[0] == 0
            log.append_internal(marker(producer_id, is_commit=producer_id == 1))
    log.admit_transaction(3, 0)
    assert log.append(transactional(3, base_sequence=0, count=1))[0] == 0  # stays open
    assert recovery.close(log) == 81
    offset, snapshot = log.producer_snapshot()
    folder = logs.folder()
    (folder / f"{offset:020}.snapshot").write_bytes(snapshot)
    files = {suffix: sorted(folder.glob(f"*.{suffix}")) for suffix in FILE_KINDS}
    assert all(files.values())

    dumps = {
        suffix: java.run(
            "org.apache.kafka.tools.DumpLogSegments",
            *("--deep-iteration", "--print-data-log", "--files", ",".join(map(str, found))),
        )
        for suffix, found in files.items()
    }

    offsets = re.findall(r"^\|? *offset: (\d+)", dumps["log"], re.MULTILINE)
    assert list(map(int, offsets)) == list(range(81))
    assert dumps["log"].count("endTxnMarker: ABORT") == 10
    assert dumps["log"].count("endTxnMarker: COMMIT") == 10
    assert dumps["txnindex"].count("producerId: 2") == 10
    assert dumps["snapshot"].count("producerId: ") == 3
    assert "currentTxnFirstOffset: OptionalLong[80]" in dumps["snapshot"]
    for dump in dumps.values():
        for complaint in ("Mismatches", "out of order", "not found", "Corrupt", "Exception"):
            assert complaint not in dump, dump


def transactional(producer_id: int, base_sequence: int, count: int) -> bytes:
    """Return a batch of a producer's transaction."""
    return batch_of(
        [(b"key", b"value", [])] * count,
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=base_sequence,
        is_transactional=True,
    )


def marker(producer_id: int, *, is_commit: bool) -> bytes:
    """Return the control batch that ends a producer's transaction."""
    return batch_of(
        [(bytes(3) + bytes([is_commit]), bytes(6), [])],
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def create(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Create a topic without starting a JVM for it."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, partitions)
