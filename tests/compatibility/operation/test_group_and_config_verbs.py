"""`broker group`, `config`, `cluster` and `txn` against a running broker, as a user types them."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.admin import create_topic
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.client.produce import Producer
from broker.client.transactions import Transactions, new_producer_id
from broker.model.address import parse_address
from broker.model.clock import SystemClock
from tests.support.broker_process import Broker

Verb = Callable[..., list[dict[str, Any]]]
OK, NOT_FOUND, UNHEALTHY = 0, 3, 8


@pytest.fixture
def verb(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Run a verb and return its rows."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(*words: str, expected: int = OK) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "broker", *words, "-b", broker.address, "-o", "jsonl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == expected, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    """A client whose connections are closed."""
    pool = Pool(SystemClock())
    yield Cluster([parse_address(broker.address)], pool=pool)
    pool.close()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with 50 records in each of two partitions."""
    name = f"verbs-{uuid.uuid4().hex[:8]}"
    create_topic(cluster, name, 2)
    producer = Producer(cluster, new_producer_id(cluster))
    for partition in range(2):
        key = name, partition
        producer.send({key: producer.encode(key, [(b"key", b"value")] * 50)})
    return name


def after(rows: list[dict[str, Any]]) -> list[int | None]:
    return [row["after"] for row in rows]


def test_offsets_are_sought_undone_and_deleted(verb: Verb, topic: str) -> None:
    group = f"g-{topic}"
    assert after(verb("group", "seek", group, topic, "--to-offset", "10", "--dry-run")) == [10, 10]
    verb("group", "describe", group, expected=NOT_FOUND)

    verb("group", "seek", group, topic, "--to-offset", "10")
    assert after(verb("group", "seek", group, f"{topic}:1", "--shift-by", "5")) == [15]
    assert after(verb("group", "seek", group, "--to-latest")) == [50, 50]
    assert after(verb("group", "undo", group)) == [10, 15]

    assert [row["lag"] for row in verb("group", "lag", group)] == [40, 35]
    assert all(row["lag_seconds"] >= 0 for row in verb("group", "lag", group))
    [empty, *_] = verb("group", "explain", group, "--wait", "0", expected=UNHEALTHY)
    assert "it has no members" in empty["reason"]

    [deleted] = verb("group", "delete", group, "--yes")
    assert deleted["offsets"] == 2
    verb("group", "describe", group, expected=NOT_FOUND)
    assert after(verb("group", "seek", group, "--from-file", deleted["saved_offsets"])) == [10, 15]


def test_an_offset_outside_of_the_log_becomes_its_end(verb: Verb, topic: str) -> None:
    [row, _] = verb("group", "seek", f"g-{topic}", topic, "--to-offset", "99")

    assert (row["after"], row["lag_after"]) == (50, 0)
    assert "99 is outside of the log" in row["note"]


def test_settings_are_set_exported_and_applied_once(verb: Verb, topic: str, tmp_path: Path) -> None:
    [changed] = verb("config", "set", "retention.ms=86400000", "--topic", topic)
    assert (changed["before"], changed["after"]) == (None, "86400000")
    differences = verb("config", "diff", f"topic/{topic}")
    [difference] = [each for each in differences if each["name"] == "retention.ms"]
    assert (difference["left"], difference["right"]) == ("86400000", "604800000")
    file = tmp_path / "settings.jsonl"
    file.write_text("\n".join(map(json.dumps, verb("config", "export", f"topic/{topic}"))))

    verb("config", "unset", "retention.ms", "--topic", topic)

    assert len(verb("config", "apply", str(file), "--dry-run")) == 1
    assert len(verb("config", "apply", str(file))) == 1
    assert verb("config", "apply", str(file)) == []
    [setting] = verb("config", "get", "retention.ms", "--topic", topic)
    assert (setting["value"], setting["source"]) == ("86400000", "topic")


def test_an_open_transaction_is_found_and_aborted(verb: Verb, topic: str, cluster: Cluster) -> None:
    transactions = Transactions(cluster, f"pay-{topic}", 60_000)
    transactions.add([(topic, 0)])
    producer = Producer(cluster, transactions.producer, f"pay-{topic}")
    producer.send({(topic, 0): producer.encode((topic, 0), [(b"key", b"value")])})

    [described] = verb("txn", "describe", f"pay-{topic}")
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    [open_] = verb("txn", "producers", topic, "--open")
    assert open_["open_since_offset"] == 50
    verb("txn", "abort", f"{topic}:0", "--start-offset", "50", "--yes")

    assert verb("txn", "producers", topic, "--open") == []
    verb("txn", "abort", f"{topic}:0", "--start-offset", "50", "--yes", expected=NOT_FOUND)


def test_the_cluster_tells_its_brokers_and_directories(verb: Verb, topic: str) -> None:
    [info] = verb("cluster", "info")

    assert info["topics"] >= 1, topic
    assert [each["is_controller"] for each in info["brokers"]] == [True]
    assert {"disk"} <= {each["check"] for each in verb("cluster", "health")}
