"""Cursus on a listener with a login: AUTH, and credentials with a command."""

import struct
import time
from collections.abc import Iterator

import pytest

from tests.support.cursus_client import CursusClient, envelope
from tests.support.secured_broker import FAILURE_DELAY_MS, PLAIN_USERS, STORED_USERS, SecuredBroker

# Tokens of Cursus have no blanks; the passwords of the other users have.
TOKEN = "s3cret"
FAILED = "ERROR: authentication_failed mechanism=PLAIN"


@pytest.fixture
def cursus(broker: SecuredBroker) -> Iterator[CursusClient]:
    with CursusClient(broker.address) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def erin(broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create a user whose password has no blanks."""
    folder = tmp_path_factory.mktemp("settings")
    properties = broker.properties(folder, "alice", STORED_USERS["alice"])
    done = broker.user(
        *("create", "erin", "--bootstrap-server", broker.address),
        *("--command-config", str(properties)),
        password=TOKEN,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["LIST", "CREATE t 1", "PUBLISH topic=t message=x"])
@pytest.mark.parametrize("is_enveloped", [False, True])
def test_a_command_without_a_login_is_refused(
    cursus: CursusClient, command: str, is_enveloped: bool
) -> None:
    keyword = command.partition(" ")[0]

    answer = cursus.ask(envelope(command) if is_enveloped else command)

    assert answer == f"ERROR: authentication_required command={keyword}"


@pytest.mark.parametrize("command", ["HELP", "PROTOCOL_INFO", "NEGOTIATE version=1"])
def test_what_a_client_asks_first_needs_no_login(cursus: CursusClient, command: str) -> None:
    assert cursus.ask(command).startswith("OK")


def test_a_batch_without_a_login_is_refused(cursus: CursusClient) -> None:
    """In the original broker batches pass although commands do not."""
    cursus.socket.sendall(struct.pack(">I", 40) + b"\xba\x7c" + bytes(38))

    assert cursus.frame() == b"ERROR: authentication_required command=BATCH"


@pytest.mark.parametrize("start", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"])
def test_nothing_is_decompressed_before_a_login(cursus: CursusClient, start: bytes) -> None:
    cursus.socket.sendall(struct.pack(">I", 40) + start + bytes(38))

    assert cursus.frame() == b"ERROR: authentication_required command=BATCH"


def test_auth_logs_in_for_all_later_commands(cursus: CursusClient) -> None:
    assert cursus.ask(f"AUTH principal=erin token={TOKEN}") == (
        "OK principal=erin authenticated=true"
    )
    assert cursus.ask("CREATE cursus-topic 1").startswith("OK")
    assert "cursus-topic" in cursus.ask("LIST")


def test_credentials_with_a_command_log_in(cursus: CursusClient) -> None:
    answer = cursus.ask(f"CREATE topic=inline partitions=1 principal=erin auth_token={TOKEN}")

    assert answer.startswith("OK topic=inline")
    assert "inline" in cursus.ask("LIST")


@pytest.mark.parametrize("user", ["erin", "nobody", *PLAIN_USERS])
def test_a_wrong_token_is_refused_late_and_another_may_follow(
    cursus: CursusClient, user: str
) -> None:
    begun = time.monotonic()
    assert cursus.ask(f"AUTH principal={user} token=wrong") == FAILED

    assert time.monotonic() - begun >= FAILURE_DELAY_MS / 1000
    assert cursus.ask("LIST") == "ERROR: authentication_required command=LIST"
    assert cursus.ask(f"AUTH principal=erin token={TOKEN}").startswith("OK")


@pytest.mark.parametrize("command", ["AUTH", "AUTH principal=erin", f"AUTH token={TOKEN}"])
def test_auth_needs_both(cursus: CursusClient, command: str) -> None:
    assert cursus.ask(command) == "ERROR: invalid_auth command=AUTH"


def test_a_long_frame_before_the_login_closes_the_connection(cursus: CursusClient) -> None:
    cursus.socket.sendall(struct.pack(">I", 1 << 20) + b"LIST " * 9)

    assert cursus.frame() is None
