"""Which messages a connection may send before, during and after its login, and the answers."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sasl_client import RefusedLoginError, SaslClient, ScramClient
from tests.support.secured_broker import FAILURE_DELAY_MS, PLAIN_USERS, STORED_USERS
from tests.support.wire_client import ConnectionClosedError

ALICE = STORED_USERS["alice"]
BOB = PLAIN_USERS["bob"]
OFFERED = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
ILLEGAL_SASL_STATE = 34
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
WRONG_SCRAM = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    " SCRAM-SHA-256"
)


@pytest.mark.parametrize("version", range(5))
def test_versions_may_be_asked_once_before_the_handshake(
    connect: Callable[[], SaslClient], version: int
) -> None:
    client = connect()

    answer = client.request("ApiVersions", version, SOFTWARE)

    assert answer["error_code"] == 0
    assert {each["api_key"] for each in answer["api_keys"]} >= {17, 36, 38, 39, 40, 41, 50, 51}
    client.plain("bob", BOB)
    assert client.is_open()


def test_versions_asked_twice_close_the_connection(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.request("ApiVersions", 3, SOFTWARE)

    client.send("ApiVersions", 3, SOFTWARE)

    client.expect_closed()


def test_an_unknown_version_of_versions_is_answered_and_may_be_asked_again(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.send_frame(client.frame("ApiVersions", 99, b""))

    assert client.receive_frame()[4:6] == (35).to_bytes(2)
    assert client.request("ApiVersions", 0, {})["error_code"] == 0


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("Metadata", 12, {"topics": None}),
        ("SaslAuthenticate", 2, {"auth_bytes": b"\0bob\0x"}),
        ("CreateTopics", 7, {"topics": []}),
        ("DescribeUserScramCredentials", 0, {"users": None}),
    ],
)
def test_any_other_request_before_the_handshake_closes_the_connection(
    connect: Callable[[], SaslClient], name: str, version: int, body: dict[str, Any]
) -> None:
    client = connect()

    client.send(name, version, body)

    client.expect_closed()


def test_produce_before_the_login_appends_nothing(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    body = {
        "acks": 0,
        "timeout_ms": 1000,
        "topic_data": [{"name": "before", "partition_data": [{"index": 0, "records": b"x" * 70}]}],
    }

    client.send_frame(client.encoded("Produce", 9, body))

    client.expect_closed()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", ["GSSAPI", "", "plain", "OAUTHBEARER", "x" * 3000])
def test_a_mechanism_that_is_not_offered_is_refused_with_the_list(
    connect: Callable[[], SaslClient], version: int, name: str
) -> None:
    client = connect()

    begun = time.monotonic()
    assert client.choose(name, version) == {"error_code": 33, "mechanisms": OFFERED}

    assert time.monotonic() - begun >= FAILURE_DELAY_MS / 1000
    client.expect_closed()


@pytest.mark.parametrize(
    ("name", "version", "body", "answer"),
    [
        ("SaslHandshake", 1, {"mechanism": "PLAIN"}, {"error_code": ILLEGAL_SASL_STATE}),
        ("ApiVersions", 3, SOFTWARE, {"error_code": ILLEGAL_SASL_STATE}),
        ("Metadata", 12, {"topics": None}, {"brokers": [], "topics": []}),
    ],
)
def test_another_request_in_the_middle_of_a_login_gets_its_error_and_the_end(
    connect: Callable[[], SaslClient],
    name: str,
    version: int,
    body: dict[str, Any],
    answer: dict[str, Any],
) -> None:
    client = connect()
    client.choose("SCRAM-SHA-256")

    begun = time.monotonic()
    assert client.request(name, version, body).items() >= answer.items()

    assert time.monotonic() - begun >= FAILURE_DELAY_MS / 1000
    client.expect_closed()


def test_after_the_login_both_requests_are_refused_and_the_connection_stays(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.plain("bob", BOB)

    assert client.choose("PLAIN") == {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
    with pytest.raises(RefusedLoginError) as refused:
        client.token(b"\0bob\0x")
    assert refused.value.code == ILLEGAL_SASL_STATE
    assert "after successful authentication" in str(refused.value.message)
    assert client.is_open()


@pytest.mark.parametrize("version", range(3))
def test_every_version_of_the_authentication(
    connect: Callable[[], SaslClient], version: int
) -> None:
    client = connect()
    client.choose("PLAIN")

    answer = client.token(f"\0bob\0{BOB}".encode(), version)

    assert answer.get("session_lifetime_ms", 0) == 0
    assert answer["auth_bytes"] == b""
    assert client.is_open()


def test_with_the_old_handshake_messages_have_no_headers(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    assert client.choose("SCRAM-SHA-512", 0)["error_code"] == 0
    scram = ScramClient("SCRAM-SHA-512", "alice", ALICE)

    client.send_frame(scram.first())
    client.send_frame(scram.final(client.receive_frame()))

    assert client.receive_frame().startswith(b"v=")
    assert client.is_open()


def test_with_the_old_handshake_plain_is_answered_by_an_empty_frame(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.choose("PLAIN", 0)

    client.send_frame(f"\0bob\0{BOB}".encode())

    assert client.receive_frame() == b""
    assert client.is_open()


def test_with_the_old_handshake_a_failure_only_closes(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.choose("PLAIN", 0)

    begun = time.monotonic()
    client.send_frame(b"\0bob\0wrong")

    client.expect_closed()
    assert time.monotonic() - begun >= FAILURE_DELAY_MS / 1000


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", STORED_USERS)
def test_a_stored_user_logs_in(
    connect: Callable[[], SaslClient], mechanism: str, user: str
) -> None:
    client = connect()

    client.scram(user, STORED_USERS[user], mechanism=mechanism)

    assert client.is_open()


def test_a_stored_user_logs_in_with_plain(connect: Callable[[], SaslClient]) -> None:
    client = connect()

    client.plain("alice", ALICE)

    assert client.is_open()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0bob\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"bob", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            f"carol\0bob\0{BOB}".encode(),
            (
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            ),
        ),
    ],
)
def test_a_failed_plain_login_says_why_and_ends_late(
    connect: Callable[[], SaslClient], message: bytes, text: str
) -> None:
    client = connect()
    client.choose("PLAIN")

    begun = time.monotonic()
    with pytest.raises(RefusedLoginError) as refused:
        client.token(message)

    assert time.monotonic() - begun >= FAILURE_DELAY_MS / 1000
    assert (refused.value.code, refused.value.message) == (58, text)
    client.expect_closed()


@pytest.mark.parametrize("user", ["alice", "nobody", "bob"])
def test_a_wrong_scram_password_and_an_unknown_user_are_refused_alike(
    connect: Callable[[], SaslClient], user: str
) -> None:
    client = connect()

    with pytest.raises(RefusedLoginError) as refused:
        client.scram(user, "wrong")

    assert (refused.value.code, refused.value.message) == (58, WRONG_SCRAM)
    client.expect_closed()


@pytest.mark.parametrize("user", ["nobody", "somebody else"])
def test_an_unknown_user_has_the_same_salt_each_time(
    connect: Callable[[], SaslClient], user: str
) -> None:
    def server_first(name: str) -> tuple[str, str]:
        client = connect()
        client.choose("SCRAM-SHA-256")
        answer = client.token(ScramClient("SCRAM-SHA-256", name, "").first())
        _, salt, iterations = answer["auth_bytes"].decode().split(",")
        return salt, iterations

    known, made_up = server_first("alice"), server_first(user)

    assert server_first(user) == made_up
    assert server_first(f"{user}2")[0] != made_up[0]
    assert len(made_up[0]) == len(known[0])
    assert made_up[1] == known[1]


@pytest.mark.parametrize("nonce", ["", "rOprNGfwEbeRWgbNEkqO", "x"])
def test_a_proof_with_another_nonce_is_refused(
    connect: Callable[[], SaslClient], nonce: str
) -> None:
    client = connect()
    client.choose("SCRAM-SHA-256")
    scram = ScramClient("SCRAM-SHA-256", "alice", ALICE)
    first = client.token(scram.first())["auth_bytes"]

    with pytest.raises(RefusedLoginError) as refused:
        client.token(scram.final(first, nonce))

    assert refused.value.message == WRONG_SCRAM


def test_a_recorded_login_cannot_be_repeated(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.choose("SCRAM-SHA-256")
    scram = ScramClient("SCRAM-SHA-256", "alice", ALICE)
    messages = [scram.first()]
    messages.append(scram.final(client.token(messages[0])["auth_bytes"]))
    client.token(messages[1])
    again = connect()
    again.choose("SCRAM-SHA-256")
    again.token(messages[0])

    with pytest.raises(RefusedLoginError):
        again.token(messages[1])


def test_a_frame_above_the_limit_closes_before_it_is_read(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()

    client.send_bytes((524_289).to_bytes(4) + b"\0\x24\0\2\0\0\0\1")

    client.expect_closed()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 0, 3])
def test_an_impossible_size_closes_the_connection(
    connect: Callable[[], SaslClient], size: int
) -> None:
    client = connect()

    client.send_bytes(size.to_bytes(4, signed=True) + b"\0\x12\0\0\0\0\0\1\xff\xff"[: max(size, 8)])

    client.expect_closed()


@pytest.mark.parametrize(
    "first", [b"PING\n", b"GET /" + b"x" * 8192, b"TOPICS\n", b"PRODUCE t 0 5\nhello\n"]
)
def test_a_protocol_without_a_login_is_closed(
    connect: Callable[[], SaslClient], first: bytes
) -> None:
    client = connect()
    client.send_bytes(first)

    with pytest.raises((ConnectionClosedError, TimeoutError)):
        client.receive_frame()
