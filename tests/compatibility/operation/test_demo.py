"""`broker demo` and `broker bench`: what a new user sees first."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cli import tree
from broker.cli.demo import LOOK_AT
from broker.cli.sample_stream import GROUP, PARTITIONS, TOPIC
from broker.client.metadata import Cluster
from broker.client.offsets import LATEST, committed_offsets, list_offsets
from broker.model.address import parse_addresses
from tests.support.broker_process import BrokerProcess, wait_until

pytestmark = pytest.mark.client


def command(*arguments: str, address: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command with the address of a broker; it must end with the exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments, "--bootstrap-server", address],
        capture_output=True,
        text=True,
        check=False,
        env={name: each for name, each in os.environ.items() if not name.startswith("BROKER_")},
    )
    assert done.returncode == code, done.stderr
    return done


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return what a command has printed."""
    return [json.loads(each) for each in done.stdout.splitlines()]


def test_a_demo_fills_a_topic_with_a_group_that_lags_and_can_be_removed(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    address = start_broker().address
    cluster = Cluster(parse_addresses(address))
    places = {(TOPIC, each): LATEST for each in range(PARTITIONS)}

    [said] = rows(command("demo", "--records", "500", "--seconds", "0", address=address))
    ends = list_offsets(cluster, places)
    read = committed_offsets(cluster, GROUP)

    assert (said["records"], said["data_dir"]) == (500, None)
    assert sum(each.offset for each in ends.values()) == 500
    assert all(each.offset for each in ends.values()), "every partition has some"
    assert said["lag"] == 500 - sum(read.values()) > 0

    [would] = rows(command("demo", "clean", "--dry-run", address=address))
    assert (would["status"], would["records"]) == ("would_be_removed", 500)
    assert "add --yes" in command("demo", "clean", address=address, code=2).stderr
    [gone] = rows(command("demo", "clean", "--yes", address=address))
    assert gone["status"] == "removed"
    [gone] = rows(command("demo", "clean", address=address))
    assert gone["status"] == "absent"

    assert TOPIC not in cluster.existing_topics()
    assert committed_offsets(cluster, GROUP) == {}


def test_a_demo_without_a_broker_starts_one_that_leaves_nothing() -> None:
    done = command("demo", "--records", "30", "--seconds", "0", address="127.0.0.1:1")

    [said] = rows(done)
    assert "a broker is started for the demo" in done.stderr
    assert said["bootstrap_server"] != "127.0.0.1:1"
    assert f"broker group lag {GROUP} -b {said['bootstrap_server']}" in done.stderr
    assert not Path(said["data_dir"]).parent.exists()


def test_a_demo_that_is_ended_by_a_signal_takes_its_broker_along(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "broker", "demo", "-b", "127.0.0.1:1", "--seconds", "600"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL
    ) as demo:
        wait_until(lambda: bool(list(tmp_path.glob("*/data/meta.properties"))), "its broker runs")
        [child] = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        demo.terminate()
        assert demo.wait(60) == 128 + signal.SIGTERM

    assert not Path(f"/proc/{child}").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_a_demo_says_to_look_at_exists() -> None:
    known = {name for name, _ in tree.verbs()}

    said = [" ".join(each.split()[1:3]) for each in LOOK_AT]

    assert [each for each in said if not known & {each, each.split()[0]}] == []


def test_a_bench_counts_the_same_records_twice_and_leaves_no_topic(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    address = start_broker().address
    options = ("--seconds", "0.2", "--record-bytes", "10", "--batch-records", "7")

    produce, fetch = rows(command("bench", *options, address=address))

    assert (produce["phase"], fetch["phase"]) == ("produce", "fetch")
    assert produce["records"] == fetch["records"] == 7 * produce["requests"] > 0
    assert produce["size_bytes"] == fetch["size_bytes"]
    assert 0 < produce["p50_ms"] <= produce["p99_ms"] <= produce["max_ms"]
    assert Cluster(parse_addresses(address)).existing_topics() == {}
