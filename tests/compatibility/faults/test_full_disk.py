"""A full disk: the broker refuses, serves everything else, keeps acknowledged data, recovers.

`--disk-cycles N` fills and empties each disk that often.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.conftest import TEST_SETTINGS
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.rustlog_client import RefusedError, RustLogClient
from tests.support.small_disk import fill_up, small_disk
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch, read_batches

MIB = 1 << 20
DISK_BYTES = 64 * MIB
NOT_ENOUGH_REPLICAS = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
RESERVE = "disk.reserve"
KEPT, DROPPED = "kept", "dropped"
GROUP = "group"
RECOVERY_S = 5.0
PROCESS_S = 60.0
# The records are years old, and a full disk deletes expired records at once.
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "log.segment.bytes=4194304",
    "log.retention.ms=-1",
)

Mounted = Callable[..., BrokerProcess]


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Callable[[Path, str], BrokerProcess]]:
    """Start a broker with its data on a disk; it is checked at the end."""
    brokers: list[BrokerProcess] = []

    def start(disk: Path, durability: str) -> BrokerProcess:
        settings = (*TEST_SETTINGS, *SETTINGS, f"polylog.durability={durability}")
        broker = BrokerProcess(tmp_path, settings=settings)
        broker.data_dir = disk / "data"
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        if broker.is_running:
            broker.kill()
            print(broker.stderr())


def value(number: int) -> bytes:
    """Return the value of a record: deterministic, 200 kB."""
    return b"%08d" % number * 25_000


def fill(client: WireClient, acknowledged: dict[str, dict[int, int]], first: int) -> int:
    """Write to both topics until the broker refuses; return the next record's number."""
    number = first
    while True:
        topic = (KEPT, DROPPED)[number % 64 != 0]  # the delete frees nearly everything, every time
        error, offset = wire_requests.produce(client, topic, Batch([value(number)]).encode())
        if error == NOT_ENOUGH_REPLICAS:
            return number
        if error != NOT_ENOUGH_REPLICAS_AFTER_APPEND:  # of that nothing is known
            assert error == 0
            acknowledged[topic][offset] = number
        number += 1


def read_back(client: WireClient, topic: str, acknowledged: dict[int, int]) -> None:
    """Read every record of a topic and check that all acknowledged ones are at their offsets."""
    offset, end = 0, wire_requests.end_offset(client, topic)
    found: dict[int, bytes | None] = {}
    while offset < end:
        for batch in read_batches(wire_requests.fetch(client, topic, 0, offset)):
            found[batch.base_offset] = batch.values[0]
            offset = batch.base_offset + 1
    assert {at: found[at] for at in acknowledged} == {
        at: value(number) for at, number in acknowledged.items()
    }


def delete_topic(client: WireClient, topic: str) -> None:
    """Delete a topic; by default its files are kept for a minute."""
    body = {"topic_names": [topic], "timeout_ms": 10_000}
    [answer] = client.request("DeleteTopics", 4, body)["responses"]
    assert answer["error_code"] == 0, answer


def written_again(client: WireClient, topic: str, number: int) -> int:
    """Write a record as soon as it is accepted; return its offset."""
    answers: list[tuple[int, int]] = []

    def is_taken() -> bool:
        answers.append(wire_requests.produce(client, topic, Batch([value(number)]).encode()))
        assert answers[-1][0] in (0, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return answers[-1][0] == 0

    wait_until(is_taken, "there is free space again")
    return answers[-1][1]


def commit(client: WireClient, offset: int) -> None:
    """Commit an offset as soon as the coordinator is loaded, and fetch it."""

    def is_done() -> bool:
        return wire_requests.commit_offset(client, GROUP, KEPT, offset) == 0

    wait_until(is_done, "a commit is accepted")
    wait_until(
        lambda: wire_requests.committed_offset(client, GROUP, KEPT) == (0, offset), "it is there"
    )


def is_refused_by_every_protocol(address: str) -> None:
    """Fail unless each protocol refuses with a retriable error."""
    with LineClient(address) as lines:
        assert lines.command(f"PRODUCE {KEPT} key:{'v' * 60_000}") == (
            "ERR|NOT_LEADER|partition leader unavailable on this broker: its disk is full"
        )
    with CursusClient(address) as cursus:
        answer = cursus.ask(f"PUBLISH topic={KEPT} acks=1 producerId=p message={'m' * 60_000}")
        assert "the disk is full" in answer
    with RustLogClient(address) as rustlog, pytest.raises(RefusedError, match="the disk is full"):
        rustlog.produce(KEPT, [b"v" * 60_000])


@pytest.mark.slow("fills a file system and empties it")
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("kind", "durability"), [("tmpfs", "os"), ("ext4", "group-commit")])
def test_a_full_disk_refuses_records_serves_everything_else_and_recovers(
    tmp_path: Path,
    on_disk: Mounted,
    kind: str,
    durability: str,
    request: pytest.FixtureRequest,
) -> None:
    cycles: int = request.config.getoption("--disk-cycles")
    slowest = 0.0
    with small_disk(tmp_path, kind, DISK_BYTES) as disk:
        broker = on_disk(disk, durability)
        acknowledged: dict[str, dict[int, int]] = {KEPT: {}}
        number = 0
        # Refused records are sent again until they are accepted.
        librdkafka = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})

        def keep(sent: int) -> Callable[[KafkaError | None, Message], None]:
            def delivered(error: KafkaError | None, message: Message) -> None:
                assert error is None
                acknowledged[KEPT][message.offset() or 0] = sent

            return delivered

        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, KEPT)
            for cycle in range(cycles):
                wire_requests.create_topic(client, DROPPED)
                acknowledged[DROPPED] = {}
                number = fill(client, acknowledged, number)

                assert client.request("Metadata", 5, {"topics": None})["topics"]
                read_back(client, DROPPED, acknowledged[DROPPED])
                commit(client, cycle + 1)
                if cycle == 0:
                    is_refused_by_every_protocol(broker.address)
                librdkafka.produce(KEPT, value(number + 1), partition=0, callback=keep(number + 1))
                librdkafka.poll(0)
                begun = time.monotonic()
                delete_topic(client, DROPPED)
                acknowledged[KEPT][written_again(client, KEPT, number)] = number
                slowest = max(slowest, time.monotonic() - begun)
                assert librdkafka.flush(PROCESS_S) == 0
                number += 2
            read_back(client, KEPT, acknowledged[KEPT])
        broker.kill()
        broker.start()
        with WireClient(broker.address) as client:
            read_back(client, KEPT, acknowledged[KEPT])
            assert wire_requests.committed_offset(client, GROUP, KEPT)[1] == cycles
        assert broker.stop() == 0
        assert not (disk / "data" / "disk.reserve").exists()
        broker.check()
    print(f"{kind}: {cycles} cycles, room was used at most {slowest:.2f} s after a delete")
    assert slowest < RECOVERY_S


@pytest.mark.slow("makes a file system without inodes")
def test_a_disk_without_inodes_refuses_records_until_a_topic_is_deleted(
    tmp_path: Path, on_disk: Mounted
) -> None:
    with small_disk(tmp_path, "ext4", 2 * DISK_BYTES, inodes=128) as disk:
        broker = on_disk(disk, "group-commit")
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, KEPT)
            offset = written_again(client, KEPT, 1)
            commit(client, 1)
            names: list[str] = []

            def is_full() -> bool:
                name = f"{DROPPED}-{len(names)}"
                topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
                body = {"topics": [topic], "timeout_ms": 10_000}
                [answer] = client.request("CreateTopics", 5, body)["topics"]
                assert answer["error_code"] in (0, NOT_ENOUGH_REPLICAS), answer
                if answer["error_code"] == 0:
                    names.append(name)
                record = Batch([b"small"]).encode()
                return wire_requests.produce(client, KEPT, record)[0] == NOT_ENOUGH_REPLICAS

            wait_until(lambda: is_full() or len(names) > 128, "no inode is left")
            read_back(client, KEPT, {offset: 1})
            for name in names:
                delete_topic(client, name)
            again = written_again(client, KEPT, 2)
            read_back(client, KEPT, {offset: 1, again: 2})
        assert broker.stop() == 0
        broker.check()


@pytest.mark.parametrize(("kind", "has_reserve"), [("ext4", True), ("tmpfs", False)])
def test_a_start_on_a_disk_filled_by_others_serves_reads_and_waits_for_space(
    tmp_path: Path, on_disk: Mounted, kind: str, has_reserve: bool
) -> None:
    """Nothing is free and the last stop was a kill: all is recovered, also without a reserve."""
    with small_disk(tmp_path, kind, DISK_BYTES) as disk:
        broker = on_disk(disk, "group-commit")
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, KEPT, segment_bytes="1000000")
            acknowledged = {written_again(client, KEPT, number): number for number in range(12)}
        wait_until((broker.data_dir / RESERVE).exists, "a reserve is made")
        broker.kill()
        if not has_reserve:
            (broker.data_dir / RESERVE).unlink()
        other = disk / "other"
        fill_up(other)

        for _ in range(2):
            broker.start()
            with WireClient(broker.address) as client:
                wait_until(lambda: wire_requests.is_led(client, KEPT, 1), "the log is recovered")
                read_back(client, KEPT, acknowledged)
                refused = wire_requests.produce(client, KEPT, Batch([value(99)]).encode())
                assert refused[0] in (NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            broker.kill()
            fill_up(other)
        broker.start()
        other.unlink()

        with WireClient(broker.address) as client:
            acknowledged[written_again(client, KEPT, 100)] = 100
            read_back(client, KEPT, acknowledged)
        assert broker.stop() == 0
        broker.check()
