"""`broker user`, with the broker stopped and running, and the APIs behind it (KIP-554)."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.cli.exit_codes import Exit
from tests.support.sasl_client import RefusedLoginError, SaslClient
from tests.support.secured_broker import STORED_USERS, SecuredBroker

ALICE = STORED_USERS["alice"]
SALTED = hashlib.pbkdf2_hmac("sha256", b"new secret", b"salt", 4096)
NOT_FOUND, DUPLICATE, UNACCEPTABLE, UNSUPPORTED_MECHANISM = 91, 92, 93, 33


@pytest.fixture
def alice(connect: Callable[[], SaslClient]) -> SaslClient:
    client = connect()
    client.scram("alice", ALICE)
    return client


def upsertion(user: str, **changed: Any) -> dict[str, Any]:
    row = {
        "name": user,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": SALTED,
    }
    return row | changed


def alter(
    client: SaslClient,
    *,
    deletions: Sequence[dict[str, Any]] = (),
    upsertions: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    body = {"deletions": list(deletions), "upsertions": list(upsertions)}
    answer = client.request("AlterUserScramCredentials", 0, body)
    return {each["user"]: each["error_code"] for each in answer["results"]}


def describe(client: SaslClient, *names: str) -> dict[str, Any]:
    users = [{"name": each} for each in names] or None
    answer = client.request("DescribeUserScramCredentials", 0, {"users": users})
    assert answer["error_code"] == 0
    return {
        each["user"]: each["error_code"]
        or sorted((info["mechanism"], info["iterations"]) for info in each["credential_infos"])
        for each in answer["results"]
    }


def test_a_credential_is_in_force_for_the_next_login(
    alice: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    assert alter(alice, upsertions=[upsertion("new")]) == {"new": 0}

    client = connect()
    client.scram("new", "new secret")

    assert client.is_open()
    assert describe(alice, "new") == {"new": [(1, 4096)]}
    assert alter(alice, deletions=[{"name": "new", "mechanism": 1}]) == {"new": 0}
    assert client.is_open()
    with pytest.raises(RefusedLoginError):
        connect().scram("new", "new secret")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"iterations": 4095}, UNACCEPTABLE),
        ({"iterations": 16385}, UNACCEPTABLE),
        ({"name": ""}, UNACCEPTABLE),
        ({"name": "x" * 256}, UNACCEPTABLE),
        ({"salt": b"x" * 5000}, UNACCEPTABLE),
        ({"salted_password": b""}, UNACCEPTABLE),
        ({"salted_password": b"short"}, UNACCEPTABLE),
        ({"mechanism": 0}, UNSUPPORTED_MECHANISM),
        ({"mechanism": 3}, UNSUPPORTED_MECHANISM),
        ({"salt": b""}, 0),
    ],
)
def test_a_credential_is_checked(alice: SaslClient, changed: dict[str, Any], code: int) -> None:
    row = upsertion("checked", **changed)

    assert alter(alice, upsertions=[row]) == {row["name"]: code}


def test_each_user_has_a_result_of_its_own(alice: SaslClient) -> None:
    codes = alter(
        alice,
        deletions=[{"name": "nobody", "mechanism": 1}, {"name": "both", "mechanism": 1}],
        upsertions=[
            upsertion("twice"),
            upsertion("twice"),
            upsertion("both"),
            upsertion("good"),
            upsertion("half"),
            upsertion("half", mechanism=9),
        ],
    )

    assert codes == {
        "nobody": NOT_FOUND,
        "both": DUPLICATE,
        "twice": DUPLICATE,
        "good": 0,
        "half": UNSUPPORTED_MECHANISM,
    }
    assert describe(alice, "half", "good", "twice") == {
        "half": NOT_FOUND,
        "good": [(1, 4096)],
        "twice": NOT_FOUND,
    }


def test_describe_without_names_returns_all_users(alice: SaslClient) -> None:
    everyone = describe(alice)

    assert everyone["alice"] == [(1, 8192), (2, 8192)]
    assert set(STORED_USERS) <= set(everyone)
    assert alice.request("DescribeUserScramCredentials", 0, {"users": []})["results"]


def test_a_user_named_twice_is_a_duplicate(alice: SaslClient) -> None:
    assert describe(alice, "alice", "alice") == {"alice": DUPLICATE}


def user(broker: SecuredBroker, *options: str, password: str | None = None) -> str:
    done = broker.user(*options, password=password)
    assert done.returncode == 0, done.stderr
    return done.stdout


def users(broker: SecuredBroker, *options: str) -> list[dict[str, Any]]:
    """Return what `broker user list` prints, without the status."""
    rows = [json.loads(line) for line in user(broker, "list", *options).splitlines()]
    assert all(each.pop("status") == "there" for each in rows)
    return rows


def test_the_commands_on_a_running_broker(
    broker: SecuredBroker, connect: Callable[[], SaslClient], tmp_path: Path
) -> None:
    at = (
        *("--bootstrap-server", broker.address),
        *("--command-config", str(broker.properties(tmp_path, "alice", ALICE))),
    )

    user(broker, "create", "frank", *at, password="first")
    frank = {"user": "frank", "mechanisms": ["SCRAM-SHA-512"], "iterations": [8192]}
    assert frank in users(broker, *at)
    connect().scram("frank", "first", mechanism="SCRAM-SHA-512")
    user(broker, "passwd", "frank", "--iterations", "4096", *at, password="second")
    connect().scram("frank", "second", mechanism="SCRAM-SHA-512")
    with pytest.raises(RefusedLoginError):
        connect().scram("frank", "first", mechanism="SCRAM-SHA-512")
    user(broker, "delete", "frank", "--yes", *at)
    assert "frank" not in user(broker, "list", *at)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_commands_log_in_with_each_mechanism(
    broker: SecuredBroker, tmp_path: Path, mechanism: str
) -> None:
    properties = broker.properties(tmp_path, "alice", ALICE, mechanism)

    listed = user(
        *(broker, "list", "--bootstrap-server", broker.address),
        *("--command-config", str(properties)),
    )

    assert '"alice"' in listed


def test_a_wrong_password_of_the_command_is_one_line(broker: SecuredBroker, tmp_path: Path) -> None:
    properties = broker.properties(tmp_path, "alice", "wrong secret")

    done = broker.user(
        *("list", "--bootstrap-server", broker.address, "--command-config", str(properties))
    )

    assert done.returncode == Exit.DENIED
    assert "refuses alice" in done.stderr
    assert "wrong secret" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "password", "code", "text"),
    [
        (("create", "alice"), "x", Exit.CONFLICT, "user alice exists with SCRAM-SHA-512"),
        (("passwd", "nobody"), "x", Exit.NOT_FOUND, "there is no user nobody"),
        (("delete", "nobody"), None, Exit.NOT_FOUND, "there is no user nobody"),
        (("delete", "alice"), None, Exit.USAGE, "add --yes"),
        (("create", "new"), "", Exit.USAGE, "the password is empty"),
        (("create", "new", "--iterations", "100"), "x", Exit.USAGE, "4096<=x<=16384"),
    ],
)
def test_a_command_that_cannot_be_done_says_so(
    broker: SecuredBroker,
    tmp_path: Path,
    options: tuple[str, ...],
    password: str,
    code: int,
    text: str,
) -> None:
    properties = broker.properties(tmp_path, "alice", ALICE)

    done = broker.user(
        *options,
        *("--bootstrap-server", broker.address, "--command-config", str(properties)),
        password=password,
    )

    assert done.returncode == code
    assert text in done.stderr


def test_the_data_directory_of_a_running_broker_is_refused(broker: SecuredBroker) -> None:
    done = broker.user("create", "x", "--data-dir", str(broker.data_dir), password="x")

    assert done.returncode == 73
    assert "in use" in done.stderr


def test_the_commands_on_a_stopped_broker(broker: SecuredBroker, tmp_path: Path) -> None:
    at = ("--data-dir", str(tmp_path / "data"))

    user(broker, "create", "admin", *at, password="first")
    user(broker, "create", "admin", "--mechanism", "SCRAM-SHA-256", *at, password="first")
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert users(broker, *at) == [{"user": "admin", "mechanisms": both, "iterations": [8192, 8192]}]
    file = tmp_path / "password"
    file.write_text("second\nthis line is not read\n")
    user(broker, "passwd", "admin", "--password-file", str(file), *at)
    user(broker, "delete", "admin", "--mechanism", "SCRAM-SHA-256", "--yes", *at)
    [left] = users(broker, *at)
    assert left["mechanisms"] == ["SCRAM-SHA-512"]


def test_no_password_is_in_the_data_the_log_or_a_process_list(
    broker: SecuredBroker, alice: SaslClient
) -> None:
    alter(alice, upsertions=[upsertion("new")])
    commands = subprocess.run(
        ["/bin/ps", "ax", "-o", "args"], capture_output=True, text=True, check=True
    )
    stored = b"".join(each.read_bytes() for each in broker.data_dir.rglob("*") if each.is_file())

    for password in (*STORED_USERS.values(), "new secret"):
        assert password not in commands.stdout
        assert password not in broker.stderr() + broker.stdout()
        assert password.encode() not in stored
    assert SALTED not in stored
