"""What the verbs of groups, settings, transactions and the cluster must do with any broker."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from broker.client.admin import create_topic
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.client.produce import Producer
from broker.client.transactions import Transactions, new_producer_id
from broker.model.address import parse_address
from broker.model.clock import SystemClock
from tests.support.command_line import CommandLine

NOT_FOUND, UNHEALTHY = 3, 8


class Place(NamedTuple):
    """A topic with 50 records in each of two partitions, and how its broker is reached."""

    cli: CommandLine
    topic: str
    cluster: Cluster
    folder: Path

    def rows(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Run a command and return its rows."""
        return self.cli(*words, code=code).rows


@contextmanager
def place(address: str, folder: Path) -> Iterator[Place]:
    """Make the topic."""
    environment = {each: str(folder / each) for each in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    pool = Pool(SystemClock())
    cluster = Cluster([parse_address(address)], pool=pool)
    topic = f"verbs-{uuid.uuid4().hex[:8]}"
    create_topic(cluster, topic, 2)
    producer = Producer(cluster, new_producer_id(cluster))
    for partition in range(2):
        key = topic, partition
        producer.send({key: producer.encode(key, [(b"key", b"value")] * 50)})
    yield Place(CommandLine(address, environment), topic, cluster, folder)
    pool.close()


def after(rows: list[dict[str, Any]]) -> list[int | None]:
    """Return the offsets that a seek has set."""
    return [row["after"] for row in rows]


def offsets_are_sought_undone_and_deleted(at: Place) -> None:
    """Every change can be taken back."""
    run, topic, group = at.rows, at.topic, f"g-{at.topic}"
    assert after(run("group", "seek", group, topic, "--to-offset", "10", "--dry-run")) == [10, 10]
    assert after(run("group", "seek", group, topic, "--to-datetime", "-1h", "--dry-run")) == [0, 0]
    run("group", "describe", group, code=NOT_FOUND)

    run("group", "seek", group, topic, "--to-offset", "10")
    assert after(run("group", "seek", group, f"{topic}:1", "--shift-by", "5")) == [15]
    assert after(run("group", "seek", group, "--to-latest")) == [50, 50]
    assert after(run("group", "undo", group)) == [10, 15]

    assert [row["lag"] for row in run("group", "lag", group)] == [40, 35]
    assert all(row["lag_seconds"] >= 0 for row in run("group", "lag", group))
    [empty, *_] = run("group", "explain", group, "--wait", "0", code=UNHEALTHY)
    assert "it has no members" in empty["reason"]

    [deleted] = run("group", "delete", group, "--yes")
    assert deleted["offsets"] == 2
    run("group", "describe", group, code=NOT_FOUND)
    assert after(run("group", "seek", group, "--from-file", deleted["saved_offsets"])) == [10, 15]


def an_offset_outside_of_the_log_becomes_its_end(at: Place) -> None:
    """The row says so."""
    [row, _] = at.rows("group", "seek", f"g-{at.topic}", at.topic, "--to-offset", "99")

    assert (row["after"], row["lag_after"]) == (50, 0)
    assert "99 is outside of the log" in row["note"]


def settings_are_set_exported_and_applied_once(at: Place) -> None:
    """A second application changes nothing."""
    run, topic = at.rows, at.topic
    [changed] = run("config", "set", "retention.ms=86400000", "--topic", topic)
    assert (changed["before"], changed["after"]) == (None, "86400000")
    differences = run("config", "diff", f"topic/{topic}")
    [difference] = [each for each in differences if each["name"] == "retention.ms"]
    assert (difference["left"], difference["right"]) == ("86400000", "604800000")
    file = at.folder / "settings.jsonl"
    file.write_text("\n".join(map(json.dumps, run("config", "export", f"topic/{topic}"))))

    run("config", "unset", "retention.ms", "--topic", topic)

    assert len(run("config", "apply", str(file), "--dry-run")) == 1
    assert len(run("config", "apply", str(file))) == 1
    assert run("config", "apply", str(file)) == []
    [setting] = run("config", "get", "retention.ms", "--topic", topic)
    assert (setting["value"], setting["source"]) == ("86400000", "topic")


def an_open_transaction_is_found_and_aborted(at: Place) -> None:
    """Only the one that is named."""
    run, topic = at.rows, at.topic
    transactions = Transactions(at.cluster, f"pay-{topic}", 60_000)
    transactions.add([(topic, 0)])
    producer = Producer(at.cluster, transactions.producer, f"pay-{topic}")
    producer.send({(topic, 0): producer.encode((topic, 0), [(b"key", b"value")])})

    [described] = run("txn", "describe", f"pay-{topic}")
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    [open_] = run("txn", "producers", topic, "--open")
    assert open_["open_since_offset"] == 50
    run("txn", "abort", f"{topic}:0", "--start-offset", "50", "--yes")

    assert run("txn", "producers", topic, "--open") == []
    run("txn", "abort", f"{topic}:0", "--start-offset", "50", "--yes", code=NOT_FOUND)


def the_cluster_tells_its_brokers_and_directories(at: Place) -> None:
    """A cluster of one broker."""
    [info] = at.rows("cluster", "info")

    assert info["topics"] >= 1
    assert [each["is_controller"] for each in info["brokers"]] == [True]
    assert {"disk"} <= {each["check"] for each in at.rows("cluster", "health")}


CHECKS: tuple[Callable[[Place], None], ...] = (
    offsets_are_sought_undone_and_deleted,
    an_offset_outside_of_the_log_becomes_its_end,
    settings_are_set_exported_and_applied_once,
    an_open_transaction_is_found_and_aborted,
    the_cluster_tells_its_brokers_and_directories,
)
