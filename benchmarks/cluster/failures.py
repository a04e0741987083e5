"""Failures of replicated partitions, as clients see them.

A failure is timed from the signal until the first acknowledgement of acks=all by any broker. A
broker that is killed refuses connections; one that is paused is like one whose host is gone: it
neither answers nor refuses, and only its session's end shows it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.cluster.brokers import Brokers, Cluster, topic_on, until
from benchmarks.cluster.replicated import create, is_in_sync, leading, replicated, shown
from benchmarks.end_to_end.blocking_client import Client
from benchmarks.end_to_end.targets import BenchmarkError
from benchmarks.end_to_end.trials import Facts, Programs
from broker.codec import Fields, encode

FAILURES = 3
TOPIC = "replicated"
ACKNOWLEDGED_SECONDS_MAX = 30.0
STREAM_SECONDS = 4.0
ASLEEP_SECONDS = 1.0
MANY_TOPICS, MANY_PARTITIONS = 10, 100
GROUP = "group"
TRANSACTIONAL_ID = "transactions"
SESSION_MS = 30_000  # of the group's member, longer than any failure here


class _Requests:
    """One request after another, each to any broker that takes it."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._connections: dict[int, Client] = {}
        self.taken_by = 1
        self.avoided = 0  # a paused broker: it would never answer

    def ask(
        self, api: str, version: int, body: Fields, is_taken: Callable[[Fields], bool]
    ) -> Fields:
        """Ask the brokers in turn, first the one that took the last request, until one takes it."""
        give_up = time.monotonic() + ACKNOWLEDGED_SECONDS_MAX
        while time.monotonic() < give_up:
            for broker_id in leading(self.taken_by):
                answer = self._answer(broker_id, api, version, body)
                if answer is not None and is_taken(answer):
                    self.taken_by = broker_id
                    return answer
            time.sleep(0.002)
        raise BenchmarkError(f"no broker took {api} within {ACKNOWLEDGED_SECONDS_MAX:.0f} s")

    def _answer(self, broker_id: int, api: str, version: int, body: Fields) -> Fields | None:
        broker = self._cluster.brokers[broker_id]
        try:
            if broker_id == self.avoided or broker.process.poll() is not None:
                return None
            if broker_id not in self._connections:
                self._connections[broker_id] = Client(broker.port)
            return self._connections[broker_id].ask(api, version, body)
        except (OSError, BenchmarkError):
            connection = self._connections.pop(broker_id, None)
            if connection is not None:
                connection.close()
            return None


class _Writer:
    """Writes one record after another with acks=all to whoever leads the partition."""

    def __init__(self, cluster: Brokers) -> None:
        self.requests = _Requests(cluster)
        [batch] = encode([b"x" * 100], timestamp_ms=time.time_ns() // 1_000_000)
        self._body = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
        }

    @property
    def leader(self) -> int:
        """The broker that acknowledged last."""
        return self.requests.taken_by

    def write(self) -> float:
        """Write until a broker acknowledges; return the time of the acknowledgement."""
        self.requests.ask("Produce", 9, self._body, _is_written)
        return time.monotonic()

    def acknowledgements(self, until_time: float) -> Iterator[float]:
        """Write until a time; yield the time of each acknowledgement."""
        while time.monotonic() < until_time:
            yield self.write()

    def longest_gap(self, seconds: float) -> float:
        """Write for some seconds; return the longest time between two acknowledgements."""
        since = time.monotonic()
        return _longest_gap(since, self.acknowledgements(since + seconds))


def _longest_gap(since: float, times: Iterable[float]) -> float:
    """Return the longest time between two acknowledgements, of which one was at `since`."""
    return max(later - earlier for earlier, later in pairwise((since, *times)))


def _is_written(answer: Fields) -> bool:
    return bool(answer["responses"][0]["partition_responses"][0]["error_code"] == 0)


@contextmanager
def _paused(cluster: Cluster, broker_id: int) -> Iterator[float]:
    """Pause a broker; yield the time of the signal. It returns at the end."""
    pid = cluster.brokers[broker_id].pid
    client = cluster.clients.pop(broker_id)
    since = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield since
    finally:
        os.kill(pid, signal.SIGCONT)
        cluster.clients[broker_id] = client


def _restart(cluster: Cluster, broker_id: int) -> float:
    """Start a broker that has ended; return the seconds until all replicas are in sync."""
    cluster.brokers[broker_id].process.wait()
    since = cluster.start(broker_id)
    return until(lambda: is_in_sync(cluster, TOPIC)) - since


def measure_leader(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return the times of kills, planned stops, pauses and returns of a leader."""
    killed: list[float] = []
    paused: list[float] = []
    gaps: list[float] = []
    exits: list[float] = []
    returns: list[float] = []
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        writer = _Writer(cluster)
        for _ in range(FAILURES):
            writer.write()
            victim = writer.leader
            since = cluster.end(victim)
            killed.append(writer.write() - since)
            returns.append(_restart(cluster, victim))

            victim = writer.leader
            gap, seconds = _planned(cluster, writer, victim)
            gaps.append(gap)
            exits.append(seconds)
            returns.append(_restart(cluster, victim))

            writer.write()
            victim = writer.requests.avoided = writer.leader
            with _paused(cluster, victim) as since:
                paused.append(writer.write() - since)
            until(lambda: is_in_sync(cluster, TOPIC))
            writer.requests.avoided = 0
    return {
        "killed_s": median(killed),
        "paused_s": median(paused),
        "gap_ms": median(gaps) * 1e3,
        "gap_max_ms": max(gaps) * 1e3,
        "exit_s": median(exits),
        "isr_s": median(returns),
        "wrong": 0.0,
    }


def _planned(cluster: Cluster, writer: _Writer, victim: int) -> tuple[float, float]:
    """Stop a leader; return the longest gap between acknowledgements, and the time of its exit."""
    since = cluster.end(victim, is_planned=True)
    process = cluster.brokers[victim].process
    acknowledged: list[float] = []
    exited: float | None = None
    for now in writer.acknowledgements(since + STREAM_SECONDS):
        acknowledged.append(now)
        if exited is None and process.poll() is not None:
            exited = now
    if exited is None:
        process.wait()
        exited = time.monotonic()
    return _longest_gap(since, acknowledged), exited - since


def measure_store(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return the longest gaps between acknowledgements while the store sleeps and restarts."""
    asleep: list[float] = []
    restarted: list[float] = []
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        writer = _Writer(cluster)
        for _ in range(FAILURES):
            writer.write()
            [pid] = cluster.etcd.pids
            os.kill(pid, signal.SIGSTOP)
            gap = writer.longest_gap(ASLEEP_SECONDS)
            os.kill(pid, signal.SIGCONT)
            asleep.append(max(gap, writer.longest_gap(STREAM_SECONDS)))

            cluster.etcd.kill(0)
            cluster.etcd.start(0)
            restarted.append(writer.longest_gap(STREAM_SECONDS))
    return {
        "asleep_ms": median(asleep) * 1e3,
        "restarted_ms": median(restarted) * 1e3,
        "wrong": 0.0,
    }


def measure_many(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return the time until 1,000 partitions of a broker have other leaders."""
    names = [f"many-{number}" for number in range(MANY_TOPICS)]

    def led_by(broker_id: int) -> Callable[[], bool]:
        witness = next(each for each in cluster.clients if each != broker_id)
        return lambda: all(
            each["leader_id"] not in (-1, broker_id) for each in cluster.partitions(witness, names)
        )

    with replicated(folder) as cluster:
        cluster.create(1, [topic_on(each, MANY_PARTITIONS, *leading(1)) for each in names])
        until(lambda: all(is_in_sync(cluster, each) for each in names), 0.05)
        with _paused(cluster, 1) as since:
            paused = until(led_by(1)) - since
        until(lambda: all(is_in_sync(cluster, each) for each in names), 0.05)
        victim = shown(cluster, names[0])[0]["leader_id"]
        led = sum(each["leader_id"] == victim for name in names for each in shown(cluster, name))
        since = cluster.end(victim)
        killed = until(led_by(victim)) - since
    return {"paused_s": paused, "killed_s": killed, "killed_count": float(led), "wrong": 0.0}


# ---- coordinators


def measure_coordinators(_programs: Programs, folder: Path, _scale: float) -> Facts:
    """Return when a killed coordinator's group and transaction are served again."""
    heartbeats: list[float] = []
    ended: list[float] = []
    with replicated(folder) as cluster:
        create(cluster, TOPIC, 1, leading(1))
        for number in range(FAILURES):
            group = _Group(cluster, f"{GROUP}-{number}")
            since = cluster.end(group.coordinator)
            heartbeats.append(group.heartbeat() - since)
            _restart(cluster, group.coordinator)

            transaction = _Transaction(cluster, f"{TRANSACTIONAL_ID}-{number}")
            since = cluster.end(transaction.coordinator)
            ended.append(transaction.commit() - since)
            _restart(cluster, transaction.coordinator)
    return {"heartbeat_s": median(heartbeats), "ended_s": median(ended), "wrong": 0.0}


class _Coordinated:
    """Something that one broker coordinates."""

    def __init__(self, cluster: Cluster, key: str, key_type: int) -> None:
        self.requests = _Requests(cluster)
        body = {"key_type": key_type, "coordinator_keys": [key]}
        answer = self.requests.ask("FindCoordinator", 4, body, _is_found)
        self.coordinator: int = answer["coordinators"][0]["node_id"]

    def ask(self, api: str, version: int, body: Fields) -> Fields:
        """Ask until a broker takes a request."""
        return self.requests.ask(api, version, body, lambda answer: answer["error_code"] == 0)


def _is_found(answer: Fields) -> bool:
    return bool(answer["coordinators"][0]["error_code"] == 0)


class _Group(_Coordinated):
    """A group with one member."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        super().__init__(cluster, group_id, 0)
        joining = {
            "group_id": group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joined = self.ask("JoinGroup", 3, joining)
        self._member = {
            "group_id": group_id,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
        }
        assignments = [{"member_id": joined["member_id"], "assignment": b""}]
        self.ask("SyncGroup", 2, {**self._member, "assignments": assignments})

    def heartbeat(self) -> float:
        """Return when a broker takes a heartbeat."""
        self.ask("Heartbeat", 2, self._member)
        return time.monotonic()


class _Transaction(_Coordinated):
    """A transaction with one partition."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        super().__init__(cluster, transactional_id, 1)
        producer = self.ask(
            "InitProducerId",
            1,
            {"transactional_id": transactional_id, "transaction_timeout_ms": SESSION_MS},
        )
        self._producer = {
            "transactional_id": transactional_id,
            "producer_id": producer["producer_id"],
            "producer_epoch": producer["producer_epoch"],
        }
        body = {f"v3_and_below_{name}": value for name, value in self._producer.items()}
        body["v3_and_below_topics"] = [{"name": TOPIC, "partitions": [0]}]
        self.requests.ask("AddPartitionsToTxn", 1, body, _is_added)

    def commit(self) -> float:
        """Return when the transaction has ended."""
        self.ask("EndTxn", 1, {**self._producer, "committed": True})
        return time.monotonic()


def _is_added(answer: Fields) -> bool:
    [topic] = answer["results_by_topic_v3_and_below"]
    return all(each["partition_error_code"] == 0 for each in topic["results_by_partition"])
