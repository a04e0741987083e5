"""Kafka's own tools on a broker with a login: users, delegation tokens, records."""

import json
import re
from pathlib import Path

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS, SecuredBroker

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.slow("starts a JVM"),
]

CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ALICE = STORED_USERS["alice"]


@pytest.fixture
def admin(secured: SecuredBroker, tmp_path: Path) -> list[str]:
    properties = secured.properties(tmp_path, "alice", ALICE)
    return ["--bootstrap-server", secured.address, "--command-config", str(properties)]


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "bob", PLAIN_USERS["bob"]),
        ("SCRAM-SHA-256", "alice", ALICE),
        ("SCRAM-SHA-512", "dave, who=is odd", STORED_USERS["dave, who=is odd"]),
    ],
)
def test_java_clients_produce_and_consume(
    java: JavaTools,
    secured: SecuredBroker,
    topic: str,
    tmp_path: Path,
    mechanism: str,
    user: str,
    password: str,
) -> None:
    properties = str(secured.properties(tmp_path, user, password, mechanism))
    at = ["--bootstrap-server", secured.address, "--topic", topic]

    java.run_alone(TOPICS, "--create", *at, "--command-config", properties)
    java.run(PRODUCER, *at, "--command-config", properties, stdin="first\nsecond\n")
    read = java.run_alone(
        *(CONSUMER, *at, "--from-beginning", "--max-messages", "2"),
        *("--command-config", properties, "--timeout-ms", "60000"),
    )

    assert read.split() == ["first", "second"]


def test_kafka_configs_sets_shows_and_deletes_a_password(
    java: JavaTools, secured: SecuredBroker, admin: list[str], tmp_path: Path
) -> None:
    user = ["--entity-type", "users", "--entity-name", "erin"]
    added = "SCRAM-SHA-256=[iterations=8192,password=secret],SCRAM-SHA-512=[password=secret]"

    java.run(CONFIGS, *admin, "--alter", "--add-config", added, *user)
    shown = java.run(CONFIGS, *admin, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=8192" in shown
    assert "SCRAM-SHA-512=iterations=4096" in shown
    properties = secured.properties(tmp_path, "erin", "secret")
    listed = secured.user(
        *("list", "--bootstrap-server", secured.address, "--command-config", str(properties))
    ).stdout
    [erin] = [each for each in map(json.loads, listed.splitlines()) if each["user"] == "erin"]
    assert erin["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert erin["iterations"] == [8192, 4096]
    secured.properties(tmp_path, "alice", ALICE)  # which `admin` names
    java.run(CONFIGS, *admin, "--alter", "--delete-config", "SCRAM-SHA-256", *user)
    assert "SCRAM-SHA-256" not in java.run(CONFIGS, *admin, "--describe", *user)


def test_kafka_delegation_tokens_creates_renews_describes_and_expires(
    java: JavaTools, secured: SecuredBroker, admin: list[str], tmp_path: Path
) -> None:
    created = java.run(
        *(TOKENS, *admin, "--create", "--max-life-time-period", "-1"),
        *("--renewer-principal", "User:bob"),
    )
    row = re.search(r"(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[User:bob\]", created)
    assert row is not None, created
    token_id, password = row.groups()

    java.run(TOKENS, *admin, "--renew", "--renew-time-period", "-1", "--hmac", password)
    shown = java.run(TOKENS, *admin, "--describe", "--owner-principal", "User:alice")
    assert token_id in shown
    (tmp_path / "token").mkdir()
    by_token = secured.properties(
        tmp_path / "token", token_id, password, "SCRAM-SHA-256", ' tokenauth="true"'
    )
    listed = java.run(
        *(TOPICS, "--list", "--bootstrap-server", secured.address),
        *("--command-config", str(by_token)),
    )
    assert "Exception" not in listed
    java.run(TOKENS, *admin, "--expire", "--expiry-time-period", "-1", "--hmac", password)
    shown = java.run(TOKENS, *admin, "--describe", "--owner-principal", "User:alice")
    assert token_id not in shown
