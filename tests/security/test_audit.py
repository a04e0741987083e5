"""The audit of a running broker: who came, what was refused, what was changed."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import wait_until
from tests.support.configured_broker import AUTHORIZER, ConfiguredBroker, plain_users
from tests.support.login_client import LoginClient
from tests.support.small_disk import small_disk

USERS = {"admin": "of-admin", "alice": "of-alice"}
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(USERS),
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
    "polylog.audit.events": "login,denial,administration",
}
LISTENER = "SASL_PLAINTEXT"
ACCOUNT_CHANGE = 3001
TOPIC_DENIED = 29


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk that is soon full."""
    with small_disk(tmp_path, "tmpfs", 1 << 20) as place:
        yield place


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ConfiguredBroker]:
    """Start a broker with two users, and stop it at the end."""
    started = ConfiguredBroker(tmp_path, [LISTENER], SETTINGS)
    started.start()
    yield started
    started.stop()
    started.check()


def create(client: LoginClient, topic: str) -> int:
    """Create a topic; return the error code."""
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    body = {"topics": [wanted | {"assignments": [], "configs": []}], "timeout_ms": 10_000}
    return int(client.request("CreateTopics", 7, body)["topics"][0]["error_code"])


def events(broker: ConfiguredBroker) -> list[dict[str, Any]]:
    """Return the events in the audit's file."""
    lines = (broker.data_dir / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def verified(*options: str) -> tuple[int, dict[str, Any]]:
    """Run `broker audit verify` and return its exit code and report."""
    command = [sys.executable, "-m", "broker", "audit", "verify", *options, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_logins_denials_and_administration_are_recorded(broker: ConfiguredBroker) -> None:
    with LoginClient(broker.of_listener[LISTENER]) as admin:
        admin.log_in("admin", "of-admin")
        assert create(admin, "orders") == 0
    with LoginClient(broker.of_listener[LISTENER]) as alice:
        alice.log_in("alice", "of-alice")
        assert create(alice, "payments") == TOPIC_DENIED
    with LoginClient(broker.of_listener[LISTENER]) as wrong:
        wrong.fail_to_log_in("alice", "canary-of-a-wrong-password")

    def found(class_uid: int, **wanted: Any) -> list[dict[str, Any]]:
        return [
            each
            for each in events(broker)
            if each["class_uid"] == class_uid and wanted.items() <= each.items()
        ]

    wait_until(lambda: bool(found(3002, status="Failure")), "the failed login is on record")
    assert [each["user"]["name"] for each in found(3002, status="Success")] == ["admin", "alice"]
    [failed] = found(3002, status="Failure")
    assert failed["user"]["name"] == "alice"
    assert failed["src_endpoint"] == {"ip": "127.0.0.1"}
    assert failed["dst_endpoint"]["name"] == LISTENER
    [created] = found(6003, status="Success")
    assert created["actor"]["user"]["name"] == "admin"
    assert created["api"]["operation"] == "CreateTopics"
    assert created["message"] == "topic orders"
    [denied] = found(6003, status="Failure")
    assert denied["actor"]["user"]["name"] == "alice"
    assert denied["resources"] == [{"name": "payments", "type": "Topic"}]
    assert "canary" not in (broker.data_dir / "audit.jsonl").read_text()


def test_the_topic_has_the_lines_of_the_file_and_nobody_else_writes_to_it(
    broker: ConfiguredBroker,
) -> None:
    with LoginClient(broker.of_listener[LISTENER]) as admin:
        admin.log_in("admin", "of-admin")
        wait_until(lambda: admin.fetch("__audit")["error_code"] == 0, "the broker made the topic")
        assert create(admin, "__audit") != 0
        assert admin.produce("__audit", [b"forged"]) != 0
        lines = (broker.data_dir / "audit.jsonl").read_bytes().splitlines()

        def in_topic() -> list[bytes]:
            return [each.value or b"" for each in admin.consume("__audit")]

        wait_until(lambda: len(in_topic()) >= len(lines), "the topic has the lines")
        assert in_topic()[: len(lines)] == lines


def test_a_chain_is_whole_after_a_kill_and_a_change_is_found(
    broker: ConfiguredBroker, tmp_path: Path
) -> None:
    for _ in range(2):
        with LoginClient(broker.of_listener[LISTENER]) as admin:
            admin.log_in("admin", "of-admin")
        wait_until(lambda: events(broker)[-1]["class_uid"] == 3002, "the login is on record")
        broker.kill()
        broker.start()
    file = broker.data_dir / "audit.jsonl"

    code, report = verified(str(file))
    assert (code, report["problems"]) == (0, [])
    assert report["totals"]["events"] == len(events(broker))

    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(file.read_bytes().replace(b'"admin"', b'"alice"', 1))
    code, report = verified(str(changed))
    assert code == 1
    assert "does not follow" in report["problems"][0]
    lines = file.read_bytes().splitlines(keepends=True)
    changed.write_bytes(b"".join(lines[:1] + lines[2:]))
    assert verified(str(changed))[0] == 1
    changed.write_bytes(b"".join(lines[1:]))
    assert verified(str(changed))[0] == 1
    assert verified("--part", str(changed))[0] == 0


def test_a_key_makes_a_chain_that_nobody_else_can_make(tmp_path: Path) -> None:
    key = tmp_path / "audit.key"
    key.touch(0o600)
    key.write_text("the key")
    settings = SETTINGS | {"polylog.audit.key.file": str(key)}
    broker = ConfiguredBroker(tmp_path, [LISTENER], settings)
    broker.start()
    broker.stop()
    file = broker.data_dir / "audit.jsonl"

    assert verified("--key-file", str(key), str(file))[0] == 0
    assert verified(str(file))[0] == 1


def test_a_key_file_of_all_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    key = tmp_path / "audit.key"
    key.write_text("the key")
    key.chmod(0o644)
    settings = SETTINGS | {"polylog.audit.key.file": str(key)}
    broker = ConfiguredBroker(tmp_path, [LISTENER], settings)
    broker.launch()

    assert broker.wait() != 0
    assert f"run `chmod 600 {key}`" in broker.stderr()


def test_fail_closed_refuses_logins_and_administration_while_the_disk_is_full(
    tmp_path: Path, disk: Path
) -> None:
    settings = SETTINGS | {
        "polylog.audit.file": str(disk / "audit.jsonl"),
        "polylog.audit.fail.closed": "true",
    }
    broker = ConfiguredBroker(tmp_path, [LISTENER], settings)
    broker.expected_complaints.append("the audit cannot be written")
    broker.start()
    address = broker.of_listener[LISTENER]
    with LoginClient(address) as admin:
        admin.log_in("admin", "of-admin")
        assert create(admin, "before") == 0
        ballast = disk / "ballast"
        fill(ballast)

        wait_until(lambda: create(admin, f"topic-{uuid.uuid4().hex}") != 0, "it is refused")
        with LoginClient(address) as late:
            late.fail_to_log_in("admin", "of-admin")
        assert admin.produce("before", [b"data"]) == 0  # reads and writes are not recorded
        ballast.unlink()
        wait_until(lambda: create(admin, f"topic-{uuid.uuid4().hex}") == 0, "it is allowed again")
    broker.stop()
    broker.check()

    code, report = verified(str(disk / "audit.jsonl"))
    assert (code, report["problems"]) == (0, [])
    assert report["totals"]["dropped"] >= 2


def fill(file: Path) -> None:
    """Write until there is no room for a byte."""
    with file.open("wb", buffering=0) as opened, suppress(OSError):
        while opened.write(bytes(4096)):
            pass


def test_a_client_that_leaves_at_once_is_recorded_with_what_it_has_changed(
    broker: ConfiguredBroker,
) -> None:
    row = {"name": "", "mechanism": 1, "iterations": 4096, "salt": b"salt"}
    names = [f"left{each}" for each in range(20)]
    for name in names:
        with LoginClient(broker.of_listener[LISTENER]) as admin:
            admin.log_in("admin", USERS["admin"])
            changed = row | {"name": name, "salted_password": bytes(32)}
            body = {"deletions": [], "upsertions": [changed]}
            admin.send("AlterUserScramCredentials", 0, body)
    time.sleep(1)

    with LoginClient(broker.of_listener[LISTENER]) as admin:
        admin.log_in("admin", USERS["admin"])
        found = admin.request("DescribeUserScramCredentials", 0, {"users": None})["results"]
    wait_until(
        lambda: (
            {each["user"] for each in found}
            <= {
                each["user"]["name"].removeprefix("User:")
                for each in events(broker)
                if each["class_uid"] == ACCOUNT_CHANGE
            }
        ),
        "events of all changes",
    )
    assert found
