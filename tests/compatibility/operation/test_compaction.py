"""Compacted topics of a real broker: clients always read the last value of every key.

The broker rolls tiny segments and looks for work ten times a second; the compactor is killed, and
so is the broker.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]
Contents = dict[bytes, bytes | None]

CLEANER = ("log.cleaner.backoff.ms=100", "polylog.durability=os")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS = 40
WRITES_PER_ROUND = 300
ROUNDS = 12
SETTLE_TIMEOUT_S = 120.0
COMPACTOR_TIMEOUT_S = 60.0


def create(broker: BrokerProcess, topic: str, **configs: str) -> None:
    """Create a compacted topic of one partition whose records are compacted at once."""
    chosen: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_bytes": "16384",
        "min_cleanable_dirty_ratio": "0.01",
        "delete_retention_ms": "100",
        **configs,
    }
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, **chosen)


def producing(broker: BrokerProcess, **options: str | int | bool) -> Producer:
    """Return a producer whose records are stored in order, once or with repeats of neighbours."""
    return Producer(
        {
            "bootstrap.servers": broker.address,
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": 60_000,
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 1,
            "batch.num.messages": 10,
            **options,
        }
    )


def raise_failed(error: KafkaError | None, _message: Message) -> None:
    """Fail a test whose record was not written."""
    assert error is None, error


def write(producer: Producer, topic: str, some: random.Random, model: Contents) -> None:
    """Write random values and tombstones to random keys, to the log and the model."""
    for _ in range(WRITES_PER_ROUND):
        key = b"key %d" % some.randrange(KEYS)
        value = None if some.random() < 0.2 else some.randbytes(some.randrange(200))
        producer.produce(topic, value, key, on_delivery=raise_failed)
        model[key] = value


def read(broker: BrokerProcess, topic: str) -> list[Message]:
    """Return every record of the topic, from the beginning to the end."""
    end = end_of(broker, topic)
    options = {
        "bootstrap.servers": broker.address,
        "group.id": "reader",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    found: list[Message] = []
    with closing(Consumer(options)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(60.0)) is not None:
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF and offset_of(message) >= end:
                return found
    raise AssertionError(f"no end of {topic}")


def end_of(broker: BrokerProcess, topic: str) -> int:
    """Return the end of the topic, once a broker that has just started knows it."""
    with WireClient(broker.address) as client:

        def is_loaded() -> bool:
            return wire_requests.list_offset(client, topic, 0, -1)["error_code"] == 0

        wait_until(is_loaded, f"{topic} is loaded")
        return wire_requests.end_offset(client, topic)


def offset_of(message: Message) -> int:
    """Return the offset of a record."""
    offset = message.offset()
    assert offset is not None
    return offset


def compressed(messages: list[Message]) -> Contents:
    """Return the last value of every key that has one."""
    last = {message.key(): message.value() for message in messages}
    return {key: value for key, value in last.items() if key is not None and value is not None}


def living(model: Contents) -> Contents:
    """Return the keys of the model that are not deleted."""
    return {key: value for key, value in model.items() if value is not None}


def compactors(broker: BrokerProcess) -> list[int]:
    """Return the compactor processes of a broker."""
    try:
        tasks = list(Path(f"/proc/{broker.process.pid}/task").iterdir())
        children = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
        return []
    return [pid for pid in children if is_alive(pid)]


def few_records(broker: BrokerProcess, topic: str, at_most: int) -> Callable[[], bool]:
    """Return whether the topic has been compacted to that few records."""
    return lambda: len(read(broker, topic)) <= at_most


@pytest.mark.slow("kills and restarts a broker under load, --kill-cycles times")
@pytest.mark.timeout(0)
def test_keys_equal_the_models_last_values_under_kill_9(
    start_broker: StartBroker, topic: str, choices: random.Random, request: pytest.FixtureRequest
) -> None:
    cycles: int = request.config.getoption("--kill-cycles")
    broker = start_broker(*CLEANER)
    create(broker, topic)
    model: Contents = {}

    for cycle in range(cycles):
        producer = producing(broker, **{"compression.type": COMPRESSIONS[cycle % 5]})
        write(producer, topic, choices, model)
        if cycle % 2:
            assert producer.flush(60) == 0
        time.sleep(choices.random() / 2)
        broker.kill()
        broker.restart()
        assert producer.flush(60) == 0
        assert compressed(read(broker, topic)) == living(model), f"after kill {cycle}"

    # One value per key, plus the active segment and the last one that was not due yet.
    wait_until(few_records(broker, topic, KEYS + 600), "it is compacted", SETTLE_TIMEOUT_S)
    assert compressed(read(broker, topic)) == living(model)
    offsets = [offset_of(message) for message in read(broker, topic)]
    assert offsets == sorted(set(offsets))


@pytest.mark.slow("goes on until the log has been compacted under its readers")
def test_readers_find_the_newest_record_of_each_key_while_compaction_replaces_files(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CLEANER)
    create(broker, topic, delete_retention_ms="3600000")
    written: dict[bytes | None, int] = {}  # key → acknowledged offset
    is_compacted = False
    rounds = 0

    def note(error: KafkaError | None, message: Message) -> None:
        raise_failed(error, message)
        written[message.key()] = offset_of(message)

    some = random.Random(11)
    with closing_producer(producing(broker)) as producer:
        while rounds < ROUNDS or not is_compacted:
            rounds += 1
            assert rounds < 20 * ROUNDS, "nothing is compacted"
            for _ in range(WRITES_PER_ROUND):
                key = b"key %d" % some.randrange(KEYS)
                producer.produce(topic, some.randbytes(100), key, on_delivery=note)
            producer.poll(0)
            known = dict(written)

            messages = read(broker, topic)

            offsets = [offset_of(message) for message in messages]
            assert offsets == sorted(set(offsets))
            newest = {message.key(): offset_of(message) for message in messages}
            assert all(newest[key] >= offset for key, offset in known.items())
            is_compacted = len(offsets) <= max(offsets, default=-1)


@contextmanager
def closing_producer(producer: Producer) -> Iterator[Producer]:
    """Lend a producer and wait for its acknowledgements."""
    yield producer
    assert producer.flush(60) == 0


def test_a_compacted_log_survives_the_loss_of_its_recovery_point(
    start_broker: StartBroker, topic: str
) -> None:
    """Some operators delete that file to have all logs checked."""
    broker = start_broker(*CLEANER)
    create(broker, topic)
    model: Contents = {}
    with closing_producer(producing(broker)) as producer:
        for seed in range(6):
            write(producer, topic, random.Random(seed), model)
    wait_until(few_records(broker, topic, KEYS + 600), "it is compacted", SETTLE_TIMEOUT_S)
    wait_until(lambda: not compactors(broker), "nothing is being compacted")

    broker.kill()
    (broker.data_dir / "recovery-point-offset-checkpoint").unlink()
    broker.restart()

    assert compressed(read(broker, topic)) == living(model)


def test_a_compactor_that_is_killed_is_started_again(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(*CLEANER)
    create(broker, topic)
    model: Contents = {}
    producer = producing(broker)
    for _ in range(4):
        write(producer, topic, random.Random(7), model)
    assert producer.flush(60) == 0

    killed: set[int] = set()
    deadline = time.monotonic() + COMPACTOR_TIMEOUT_S
    while len(killed) < 3 and time.monotonic() < deadline:
        for pid in compactors(broker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        write(producer, topic, random.Random(8), model)
        producer.flush(60)

    assert killed
    wait_until(few_records(broker, topic, KEYS + 600), "it is compacted", SETTLE_TIMEOUT_S)
    assert compressed(read(broker, topic)) == living(model)


def test_a_compactor_holds_no_lock_of_the_broker_and_dies_with_it(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CLEANER)
    create(broker, topic, segment_bytes="1048576")
    producer = producing(broker)
    for seed in range(40):
        write(producer, topic, random.Random(seed), {})
    assert producer.flush(60) == 0
    stop_writing = time.monotonic() + COMPACTOR_TIMEOUT_S
    while not (children := compactors(broker)) and time.monotonic() < stop_writing:
        write(producer, topic, random.Random(1), {})
        producer.flush(60)
    assert children
    with suppress(FileNotFoundError):
        opened = [str(file.readlink()) for file in Path(f"/proc/{children[0]}/fd").iterdir()]
        assert not any("broker.lock" in name for name in opened)

    broker.kill()

    wait_until(lambda: not any(map(is_alive, children)), "the compactor has ended")
    broker.restart()


def test_stopping_the_broker_ends_a_running_compaction(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CLEANER)
    create(broker, topic, segment_bytes="1048576")
    producer = producing(broker)
    stop_writing = time.monotonic() + COMPACTOR_TIMEOUT_S
    while not (children := compactors(broker)) and time.monotonic() < stop_writing:
        write(producer, topic, random.Random(1), {})
        producer.flush(60)
    assert children

    assert broker.stop() == 0

    assert not any(map(is_alive, children))
    broker.restart()


def is_alive(pid: int) -> bool:
    """Return whether a compactor process runs."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return b".compactor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_committed_offsets_are_compacted_and_survive(start_broker: StartBroker) -> None:
    broker = start_broker("offsets.topic.num.partitions=1", *CLEANER)
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "some")
        wire_requests.find_coordinator(client, "group")
        wait_until(lambda: wire_requests.commit_offset(client, "group", "some", 0) == 0, "a group")
        alter(broker, "__consumer_offsets", segment_bytes="4096", min_cleanable_dirty_ratio="0.01")
        for offset in range(600):
            assert wire_requests.commit_offset(client, "group", "some", offset) == 0
    folder = "__consumer_offsets-0"

    wait_until(
        lambda: len(list((broker.data_dir / folder).glob("*.log"))) <= 3,
        "__consumer_offsets shrinks",
        SETTLE_TIMEOUT_S,
    )

    broker.kill()
    broker.restart()
    with WireClient(broker.address) as client:
        wait_until(
            lambda: wire_requests.committed_offset(client, "group", "some") == (0, 599),
            "the committed offset is there",
        )


def alter(broker: BrokerProcess, topic: str, **configs: str) -> None:
    """Set keys of a topic that exists."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(60)


@pytest.mark.slow("a JVM reads segments that were compacted before")
@pytest.mark.timeout(900)
def test_kafkas_dump_log_segments_reads_compacted_segments(
    java: JavaTools, start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CLEANER)
    create(broker, topic, delete_retention_ms="3600000")
    model: Contents = {}
    some = random.Random(3)
    for compression in COMPRESSIONS:
        options: dict[str, Any] = {"compression.type": compression, "enable.idempotence": True}
        idempotent = producing(broker, **options)
        write(idempotent, topic, some, model)
        assert idempotent.flush(60) == 0
    wait_until(few_records(broker, topic, KEYS + 600), "it is compacted", SETTLE_TIMEOUT_S)
    wait_until(lambda: not compactors(broker), "nothing is being compacted")
    expected = [message.offset() for message in read(broker, topic)]
    assert broker.stop() == 0
    folder = broker.data_dir / f"{topic}-0"
    logs, indexes = sorted(folder.glob("*.log")), sorted(folder.glob("*index"))

    dump = java.run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--print-data-log", "--files", ",".join(map(str, logs))),
    )
    entries = java.run(
        "org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, indexes))
    )

    offsets = [
        int(line.split("offset: ")[1].split()[0])
        for line in dump.splitlines()
        if line.startswith("| offset: ")
    ]
    assert offsets == expected
    assert "isvalid: false" not in dump
    assert "deleteHorizonMs: OptionalLong[" in dump
    for complaint in ("Mismatches", "invalid bytes", "Corrupt", "Exception", "out of order"):
        assert complaint not in dump, dump[-2_000:]
        assert complaint not in entries, entries[-2_000:]
