"""`broker start --workers 2`: two brokers on one data directory, as users run them."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.ports import HOST
from tests.support.workers_process import PARTITIONS, TIMEOUT_S, Workers


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


def openers(workers: Workers, topic: str) -> dict[str, set[int]]:
    """Return the processes that have a log file of each partition's folder open for writing."""
    found: dict[str, set[int]] = {}
    for pid in workers.pids():
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                file = fd.readlink()
            except FileNotFoundError:
                continue
            if file.suffix == ".log" and file.parent.name.startswith(f"{topic}-"):
                found.setdefault(file.parent.name, set()).add(pid)
    return found


class Writing:
    """Records to all partitions of a topic; those that were acknowledged are known."""

    def __init__(self, workers: Workers, topic: str) -> None:
        """Begin without any."""
        self._producer = Producer({**workers.config, "linger.ms": 0})
        self._topic = topic
        self._next = 0
        self.acknowledged: set[bytes] = set()
        self.failed: list[str] = []

    def write(self, count: int) -> None:
        """Write some records without waiting for them."""
        for _ in range(count):
            value = b"%d" % self._next
            self._producer.produce(
                self._topic,
                value,
                partition=self._next % PARTITIONS,
                on_delivery=self._delivered,
            )
            self._next += 1
            self._producer.poll(0)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Write until something has happened."""

        def has_happened() -> bool:
            self.write(PARTITIONS)
            return condition()

        wait_until(has_happened, what)

    def finish(self) -> None:
        """Wait for all records; each must be acknowledged."""
        assert self._producer.flush(TIMEOUT_S) == 0
        assert self.failed == []
        assert len(self.acknowledged) == self._next

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.acknowledged.add(value)
        else:
            self.failed.append(str(error))


def read(workers: Workers, topic: str, group: str, count: int) -> list[bytes]:
    """Read so many records as a group, and commit them."""
    own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**workers.config, **own})
    values: list[bytes] = []

    def has_all() -> bool:
        found = consumer.consume(1000, 0.1)
        values.extend(each.value() or b"" for each in found if each.error() is None)
        return len(values) >= count

    try:
        consumer.subscribe([topic])
        wait_until(has_all, f"{count} records of {topic}", TIMEOUT_S)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two workers for all tests."""
    running = Workers(tmp_path_factory.mktemp("workers"))
    running.start()
    yield running
    assert running.stop() == 0
    running.check()


def test_both_workers_lead_and_clients_need_the_bootstrap_address_only(workers: Workers) -> None:
    workers.create("both")
    assert {*workers.leaders("both").values()} == {1, 2}
    writing = Writing(workers, "both")
    writing.write(100)
    writing.finish()

    first = read(workers, "both", "readers", 100)
    writing.write(20)
    writing.finish()

    assert {*first} == {b"%d" % each for each in range(100)}
    assert {*read(workers, "both", "readers", 20)} == {b"%d" % each for each in range(100, 120)}


def test_one_banner_has_the_address_of_all_and_that_of_each(workers: Workers) -> None:
    port = int(workers.listen.rpartition(":")[2])
    lines = workers.stdout().splitlines()

    assert lines[0] == f"polylog workers listen on {HOST}:{port}"
    assert lines[1].split(None, 1)[1] == f"1 on {HOST}:{port + 1}, 2 on {HOST}:{port + 2}"
    assert len([line for line in lines if "polylog" in line]) == 1


def test_each_line_of_the_log_has_the_process_that_wrote_it(workers: Workers) -> None:
    line = re.compile(r"[-\d]+ [:,\d]+ [A-Z]+ (supervisor|worker=[12]) broker\.")

    assert [each for each in workers.log_lines() if not line.match(each)] == []


def test_nothing_acknowledged_is_lost_when_a_worker_is_killed_and_it_comes_back(
    workers: Workers,
) -> None:
    workers.create("killed")
    writing = Writing(workers, "killed")
    writing.write(100)
    doomed = workers.pid_of(1)

    os.kill(doomed, signal.SIGKILL)
    writing.until(lambda: {*workers.leaders("killed").values()} == {2}, "worker 2 leads all")
    writing.until(lambda: len(workers.pids()) == 2, "worker 1 is back")
    writing.finish()

    assert doomed not in workers.pids()
    values = read(workers, "killed", "after", len(writing.acknowledged))
    assert writing.acknowledged <= {*values}
    wait_until(lambda: workers.registered() == {1, 2}, "worker 1 is registered again")


def test_a_worker_that_is_asked_to_end_hands_over_and_is_started_again(workers: Workers) -> None:
    workers.create("drained")
    writing = Writing(workers, "drained")
    writing.write(100)
    ended = workers.pid_of(2)

    os.kill(ended, signal.SIGTERM)
    writing.until(lambda: ended not in workers.pids(), "worker 2 has ended")
    workers.until_led_by("drained", 1)
    writing.until(lambda: len(workers.pids()) == 2, "worker 2 is back")
    writing.finish()

    assert {*read(workers, "drained", "after", len(writing.acknowledged))} == writing.acknowledged
    handed_over = [each for each in openers(workers, "drained").values() if len(each) > 1]
    assert handed_over == []


def test_a_worker_that_is_paused_beyond_its_lease_keeps_its_folders_from_the_others(
    workers: Workers,
) -> None:
    workers.create("paused")
    writing = Writing(workers, "paused")
    writing.write(100)
    writing.finish()
    leaders = workers.leaders("paused")
    node_id = leaders[0]
    led = [f"paused-{number}" for number, leader in leaders.items() if leader == node_id]
    paused = workers.pid_of(node_id)
    others = {*workers.pids()} - {paused}

    os.kill(paused, signal.SIGSTOP)
    try:
        waits = "tried again: topic=paused reason=logs are open in another process"
        wait_until(lambda: waits in workers.stderr(), "the other worker is elected and waits")
        opened = openers(workers, "paused")
        assert [opened[each] for each in led] == [{paused}] * len(led)
        writing.write(PARTITIONS)
    finally:
        workers.expected_complaints.append("lease lost")
        os.kill(paused, signal.SIGCONT)
    seen: list[set[int]] = []

    def is_handed_over() -> bool:
        opened = openers(workers, "paused")
        seen.extend(opened.values())
        return [opened.get(each) for each in led] == [others] * len(led)

    writing.until(is_handed_over, "the other worker has opened the logs")
    writing.finish()

    assert max(map(len, seen)) == 1
    assert {*read(workers, "paused", "after", len(writing.acknowledged))} == writing.acknowledged


def test_a_second_start_on_the_directory_is_refused(workers: Workers, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path, listen=f"{HOST}:0")
    other.data_dir = workers.data_dir
    other.launch()

    assert other.wait() == 73
    assert "is in use by a broker" in other.stderr()
    assert workers.listen in other.stderr()


def test_a_directory_serves_one_broker_and_workers_by_turns(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    written: set[bytes] = set()
    for turn, count in enumerate((1, 2, 1, 2)):
        workers.count = count
        workers.start()
        if turn == 0:
            workers.create("turns")
        expected = {1} if count == 1 else {1, 2}
        workers.until_led_by("turns", *expected)
        writing = Writing(workers, "turns")
        writing._next = len(written)
        writing.write(40)
        writing._producer.flush(TIMEOUT_S)
        written |= writing.acknowledged
        assert len(written) == 40 * (turn + 1)
        assert {*read(workers, "turns", f"all {turn}", len(written))} == written
        assert {*read(workers, "turns", "each", 40)} >= writing.acknowledged
        assert workers.stop() == 0
        workers.check()


def test_a_stop_that_reaches_all_processes_at_once_is_in_order(tmp_path: Path) -> None:
    """A service manager signals every process of a service: systemd.kill(5)."""
    workers = Workers(tmp_path)
    workers.start()
    pids = workers.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    workers.signal(signal.SIGTERM)
    wait_until(lambda: "stopping all workers" in workers.stderr(), "the supervisor stops all")
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)

    assert workers.wait() == 0
    assert "second signal" not in workers.stderr()
    workers.check()


def test_workers_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    workers.start()
    pids = workers.pids()

    workers.kill()

    wait_until(
        lambda: not any(Path(f"/proc/{each}").exists() for each in pids), "workers have ended"
    )
    workers.start()  # the directory and the ports are free
    assert workers.stop() == 0


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("polylog.metadata.store=etcd://127.0.0.1:1/p", "needs polylog.metadata.store=sqlite"),
        ("polylog.workers=0", "polylog.workers"),
    ],
)
def test_workers_that_cannot_be_are_refused_with_a_sentence(
    tmp_path: Path, option: str, words: str
) -> None:
    broker = BrokerProcess(tmp_path, settings=["polylog.workers=2", option], listen=f"{HOST}:0")
    broker.launch()

    assert broker.wait() == 2
    assert words in broker.stderr()
