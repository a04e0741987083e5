"""`broker acl`, at a stopped broker and at a running one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.configured_broker import AUTHORIZER, ConfiguredBroker, plain_users
from tests.support.login_client import LoginClient

USERS = {"admin": "of-admin", "alice": "of-alice"}
LISTENER = "SASL_PLAINTEXT"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(USERS),
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
}
WRITE = "Allow User:alice from *: Write on Topic:LITERAL:orders"
READ = "Allow User:alice from *: Read on Topic:LITERAL:orders"
OF_GROUPS = "Allow User:alice from *: Read on Group:PREFIXED:team-"
TOPIC_DENIED = 29


def acl(*words: str) -> list[str]:
    """Run the command; return the entries that it names."""
    return [entry for entry, _ in statuses(*words)]


def statuses(*words: str) -> list[tuple[str, str]]:
    """Run the command; return its entries, and what it says of each."""
    command = [sys.executable, "-m", "broker", "acl", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(each["entry"], each["status"]) for each in rows]


def properties(folder: Path, user: str) -> Path:
    """Write the client settings of a user."""
    file = folder / f"{user}.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file.touch(0o600)
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{user}" password="{USERS[user]}";\n'
    )
    return file


def test_entries_are_made_before_the_first_start_and_changed_while_it_runs(tmp_path: Path) -> None:
    broker = ConfiguredBroker(tmp_path, [LISTENER], SETTINGS)
    stopped = ["--data-dir", str(broker.data_dir)]
    assert acl("allow", "User:alice", "--topic", "orders", *stopped) == [WRITE, READ]
    acl("allow", "User:alice", "--group", "team-", "--prefixed", *stopped)
    assert set(acl("list", *stopped)) == {WRITE, READ, OF_GROUPS}
    broker.start()
    address = broker.of_listener[LISTENER]
    running = ["--bootstrap-server", address]
    running += ["--command-config", str(properties(tmp_path, "admin"))]

    with LoginClient(address) as admin, LoginClient(address) as alice:
        admin.log_in("admin", USERS["admin"])
        alice.log_in("alice", USERS["alice"])
        for topic in ("orders", "payments"):
            admin.create_topic(topic)
        assert alice.produce("orders", [b"allowed"]) == 0
        assert alice.produce("payments", [b"denied"]) == TOPIC_DENIED
        acl("allow", "User:alice", "--topic", "payments", "--only", "produce", *running)
        assert alice.produce("payments", [b"allowed"]) == 0
        assert alice.fetch("payments")["error_code"] == TOPIC_DENIED
        remove = ("remove", "User:alice", "--topic", "payments", "--only", "produce", *running)
        write = WRITE.replace("orders", "payments")
        assert statuses(*remove, "--dry-run") == [(write, "would_be_removed")]
        assert statuses(*remove) == [(write, "removed")]
        assert statuses(*remove) == [(write, "absent")]
        assert alice.produce("payments", [b"denied"]) == TOPIC_DENIED
    assert set(acl("list", *running)) == {WRITE, READ, OF_GROUPS}

    broker.stop()
    removed = statuses("remove", "User:alice", "--topic", "orders", *stopped)
    assert removed == [(WRITE, "removed"), (READ, "removed")]
    assert acl("list", *stopped) == [OF_GROUPS]
    broker.check()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["allow", "User:alice"], "name a --topic"),
        (["allow", "alice", "--topic", "orders"], "expected TYPE:NAME"),
        (["allow", "User:alice", "--group", "g", "--only", "produce"], "name a --topic"),
    ],
)
def test_what_makes_no_entry_is_refused(tmp_path: Path, words: list[str], fault: str) -> None:
    command = [sys.executable, "-m", "broker", "acl", *words, "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert fault in done.stderr
