"""What tools written in Go ask a broker for, through the libraries that they are made of.

kafka_exporter and kafkactl use sarama, kminion and kaf use franz-go. Their programs are not on any
registry of modules that a test could fetch them from; go/tools.go makes their requests.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.programs import UnavailableError, facts_of, run
from tests.support.broker_process import Broker

# The first run may fetch the libraries and compile them.
pytestmark = [
    pytest.mark.slow("compiles clients in Go, whose groups wait for sessions"),
    pytest.mark.timeout(900),
]

Ask = Callable[[str, str], dict[str, str]]


@pytest.fixture(scope="module")
def program() -> Path:
    """The compiled program of go/."""
    try:
        return compiled()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def ask(program: Path, broker: Broker, topic: str) -> Ask:
    """Return a function that lets a library do a tool's work, and returns what it saw."""

    def start(library: str, verb: str) -> dict[str, str]:
        return facts_of(run([str(program), library, verb, broker.address, topic]))

    return start


def test_kafka_exporter_sees_partitions_replicas_groups_and_their_lag(ask: Ask) -> None:
    assert ask("sarama", "watch") == {
        "listed": "true",
        "brokers": "1",
        "partitions": "3",
        "ends": "36",
        "starts": "0",
        "replicas": "3",
        "in_sync": "3",
        "preferred": "3",
        "protocol_type": "consumer",
        "state": "Empty",
        "members": "0",
        "lag": "6",
    }


def test_kminion_sees_the_same_lag_by_the_apis_and_in_the_topic_of_offsets(ask: Ask) -> None:
    seen = ask("franz-go", "watch")

    assert re.search(r"\bv[34]\.\d$", seen.pop("release")), "it knows no release with such APIs"
    assert seen == {
        "brokers": "1",
        "partitions": "3",
        "ends": "36",
        "starts": "0",
        "protocol_type": "consumer",
        "state": "Empty",
        "members": "0",
        "lag": "6",
        "has_size": "true",
        "settings": "true",
        "lag_in_topic": "6",
    }


def test_kafkactl_alters_topics_and_resets_copies_and_deletes_offsets(ask: Ask) -> None:
    assert ask("sarama", "operate") == {
        "unknown_broker": "true",
        "partitions": "4",
        "retention": "600000",
        "is_default": "false",
        "controller_is_a_broker": "true",
        "broker_settings": "true",
        "reset_to": "0",
        "metadata": "reset",
        "copied": "3",
        "left": "2",
        "group_deleted": "true",
        "start": "2",
    }


def test_kaf_sets_every_setting_to_what_it_is_and_moves_a_group(ask: Ask) -> None:
    assert ask("franz-go", "operate") == {
        "retention": "600000",
        "lag": "6",
        "partitions": "4",
        "lag_after_reset": "36",
        "group_deleted": "true",
    }
