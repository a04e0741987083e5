"""Pages over HTTP on a listener with a login: what is shown before it, and who logs in how.

Tools that read pages know no SASL: probes have pages without details, others a password.
"""

import socket
import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from broker.protocols.http.table import PAGES
from tests.support.broker_process import wait_until
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS, SecuredBroker

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:bob;User:alice",
)
OPEN = {
    "/": "OK",
    "/health": "OK",
    "/health/live": '{"status":"live"}',
    "/health/ready": '{"status":"ready"}',
    "/health/startup": '{"status":"started"}',
    "/live": '{"status":"live"}',
    "/ready": '{"status":"ready"}',
}
SHOWN = {200, 503}  # a cluster is healthy, or not
CLOSED = sorted({*PAGES} - {*OPEN})
GUESSES = 100
TIMEOUT_S = 60
ACCESS_DENIED = 4
HEAD_BYTES_MAX = 8 << 10


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def ask(
    broker: SecuredBroker, path: str, authorization: str | None = None, method: str = "GET"
) -> tuple[int, str, str | None]:
    """Return the status, the text and the challenge of an answer."""
    host, _, port = broker.address.rpartition(":")
    client = HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    fields = {} if authorization is None else {"Authorization": authorization}
    try:
        client.request(method, path, headers=fields)
        answer = client.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("WWW-Authenticate")
    finally:
        client.close()


def sent(broker: SecuredBroker, data: bytes) -> bytes:
    """Send bytes on a new connection; return everything until its end."""
    host, _, port = broker.address.rpartition(":")
    found = b""
    with socket.create_connection((host, int(port)), TIMEOUT_S) as client:
        client.sendall(data)
        try:
            while piece := client.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
    return found


def failures(broker: SecuredBroker) -> str:
    text = ask(broker, "/metrics", basic("bob", PLAIN_USERS["bob"]))[1]
    return "\n".join(
        line for line in text.splitlines() if line.startswith("polylog_login_failures_total{")
    )


@pytest.mark.parametrize("path", OPEN)
def test_probes_are_answered_without_a_login(broker: SecuredBroker, path: str) -> None:
    assert ask(broker, path) == (200, OPEN[path], None)


@pytest.mark.parametrize("path", CLOSED)
def test_other_pages_ask_for_one_and_show_nothing(broker: SecuredBroker, path: str) -> None:
    status, text, challenge = ask(broker, path)

    assert (status, text) == (401, "log in\n")
    assert challenge == 'Basic realm="polylog", charset="UTF-8"'


@pytest.mark.parametrize(
    ("user", "password"), [("bob", PLAIN_USERS["bob"]), ("alice", STORED_USERS["alice"])]
)
def test_a_user_who_may_describe_the_cluster_reads_them(
    broker: SecuredBroker, user: str, password: str
) -> None:
    for path in CLOSED:
        assert ask(broker, path, basic(user, password))[0] in SHOWN


def test_a_user_who_may_not_is_refused(broker: SecuredBroker) -> None:
    carol = basic("carol", PLAIN_USERS["carol"])

    assert ask(broker, "/metrics", carol)[:2] == (403, "forbidden\n")
    assert ask(broker, "/clients", carol)[:2] == (403, "forbidden\n")
    assert ask(broker, "/health/cluster", carol)[0] in SHOWN


@pytest.mark.parametrize(
    "authorization",
    [
        basic("bob", "wrong"),
        basic("bob", ""),
        basic("", PLAIN_USERS["bob"]),
        basic("nobody", PLAIN_USERS["bob"]),
        basic("bob\0bob", PLAIN_USERS["bob"]),
        basic("carol\0bob", PLAIN_USERS["bob"]),
        "Basic " + b64encode(b"bob").decode(),
        "Basic " + b64encode(b"\xff:\xfe").decode(),
        "Basic ***",
        "Basic",
        f"Bearer {b64encode(b'bob').decode()}",
        f"Plain bob:{PLAIN_USERS['bob']}",
        basic("bob", PLAIN_USERS["bob"]) + ", " + basic("bob", PLAIN_USERS["bob"]),
    ],
)
def test_wrong_credentials_show_nothing(broker: SecuredBroker, authorization: str) -> None:
    status, text, challenge = ask(broker, "/metrics", authorization)

    assert (status, text) == (401, "log in\n")
    assert challenge is not None


def test_a_wrong_password_is_counted_and_not_logged(broker: SecuredBroker) -> None:
    before = failures(broker)

    assert ask(broker, "/metrics", basic("bob", "a guess of mine"))[0] == 401

    wait_until(lambda: failures(broker) != before, "it is counted")
    assert "wrong user or password" in failures(broker)
    assert not any("a guess of mine" in line for line in broker.log_lines())


def test_a_login_is_for_one_request(broker: SecuredBroker) -> None:
    authorization = basic("bob", PLAIN_USERS["bob"])
    first = f"GET /metrics HTTP/1.1\r\nAuthorization: {authorization}\r\n\r\n".encode()

    answer = sent(broker, first + b"GET /clients HTTP/1.1\r\n\r\n")

    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert sent(broker, b"GET /clients HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"GET /none HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 "),
        (b"GET  \r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * HEAD_BYTES_MAX, b""),
        (b"GET /" + b"x" * HEAD_BYTES_MAX, b""),
    ],
)
def test_a_bad_request_is_refused_as_elsewhere(
    broker: SecuredBroker, data: bytes, first: bytes
) -> None:
    answer = sent(broker, data)

    assert answer.startswith(first)
    assert bool(answer) is bool(first)


def test_probes_are_answered_while_passwords_are_guessed(broker: SecuredBroker) -> None:
    def guess(number: int) -> int:
        return ask(broker, "/metrics", basic("alice", f"guess {number}"))[0]

    with ThreadPoolExecutor(GUESSES) as pool:
        guesses = [pool.submit(guess, number) for number in range(GUESSES)]
        asked = 0
        while not all(each.done() for each in guesses):
            assert ask(broker, "/health/live") == (200, OPEN["/health/live"], None)
            asked += 1

        assert {each.result() for each in guesses} == {401}
    assert asked > 5


def listed(
    broker: SecuredBroker, folder: Path, mechanism: str
) -> "subprocess.CompletedProcess[str]":
    """Run `broker client list` as alice."""
    file = broker.properties(folder, "alice", STORED_USERS["alice"], mechanism)
    address = ("--bootstrap-server", broker.address, "--command-config", str(file))
    return subprocess.run(
        [sys.executable, "-m", "broker", "client", "list", *address],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_command_line_reads_pages_with_its_own_password(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    done = listed(broker, tmp_path, "PLAIN")

    assert done.returncode == 0, done.stderr
    assert "User:alice" in done.stdout


def test_the_command_line_sends_no_password_that_its_login_hides(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    done = listed(broker, tmp_path, "SCRAM-SHA-512")

    assert done.returncode == ACCESS_DENIED
    assert "no login but PLAIN" in done.stderr.replace("\n", " ")
