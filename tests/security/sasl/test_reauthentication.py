"""Logging in again on an open connection (KIP-368)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sasl_client import RefusedLoginError, SaslClient
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS

LIFETIME_MS = 1500
SETTINGS = (f"listener.name.sasl_plaintext.connections.max.reauth.ms={LIFETIME_MS}",)
ALICE, BOB, CAROL = STORED_USERS["alice"], PLAIN_USERS["bob"], PLAIN_USERS["carol"]
ILLEGAL_SASL_STATE = 34


def produce(client: SaslClient) -> int:
    body = {
        "acks": 1,
        "timeout_ms": 1000,
        "topic_data": [{"name": "none", "partition_data": [{"index": 9, "records": None}]}],
    }
    answer = client.request("Produce", 9, body)
    return answer["responses"][0]["partition_responses"][0]["error_code"]


def test_a_connection_logs_in_again_as_often_as_it_likes(connect: Callable[[], SaslClient]) -> None:
    client = connect()

    assert client.plain("bob", BOB)["session_lifetime_ms"] == LIFETIME_MS
    for _ in range(3):
        assert client.plain("bob", BOB)["session_lifetime_ms"] == LIFETIME_MS
        assert client.is_open()
        time.sleep(1.05)


def test_a_second_start_within_a_second_is_refused_and_the_connection_stays(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.plain("bob", BOB)
    client.plain("bob", BOB)

    assert client.choose("PLAIN") == {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
    assert client.is_open()


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("Metadata", 12, {"topics": None}),
        ("ApiVersions", 0, {}),
        ("Produce", 9, {"acks": 1, "timeout_ms": 1, "topic_data": []}),
        ("Fetch", 11, {"max_wait_ms": 1, "min_bytes": 1, "topics": []}),
    ],
)
def test_after_the_lifetime_any_request_closes_the_connection(
    connect: Callable[[], SaslClient], name: str, version: int, body: dict[str, Any]
) -> None:
    client = connect()
    client.plain("bob", BOB)
    assert produce(client) != 0
    time.sleep(LIFETIME_MS / 1000 + 0.1)

    client.send(name, version, body)

    client.expect_closed()


def test_a_late_re_authentication_is_taken(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.plain("bob", BOB)
    time.sleep(LIFETIME_MS / 1000 + 0.1)

    client.plain("bob", BOB)

    assert client.is_open()


def test_clients_that_are_not_told_the_lifetime_are_cut_off_too(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.choose("PLAIN", 0)
    client.send_frame(f"\0bob\0{BOB}".encode())
    assert client.receive_frame() == b""
    time.sleep(LIFETIME_MS / 1000 + 0.1)

    client.send("Metadata", 1, {"topics": None})

    client.expect_closed()


def test_a_request_between_handshake_and_authentication_ends_the_connection(
    connect: Callable[[], SaslClient],
) -> None:
    client = connect()
    client.plain("bob", BOB)
    client.choose("PLAIN")

    client.send("Fetch", 11, {"max_wait_ms": 1, "min_bytes": 1, "topics": []})
    client.receive()

    client.expect_closed()


def test_another_user_is_refused(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.plain("bob", BOB)

    with pytest.raises(RefusedLoginError) as refused:
        client.plain("carol", CAROL)

    assert refused.value.code == 58
    assert refused.value.message == (
        "Cannot change principals during re-authentication from User.bob: User.carol"
    )
    client.expect_closed()


def test_a_wrong_password_ends_the_connection(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.scram("alice", ALICE)

    with pytest.raises(RefusedLoginError) as refused:
        client.scram("alice", "wrong")

    assert "during re-authentication due to invalid credentials" in str(refused.value.message)
    client.expect_closed()


def test_another_mechanism_closes_the_connection(connect: Callable[[], SaslClient]) -> None:
    client = connect()
    client.scram("alice", ALICE)

    client.send("SaslHandshake", 1, {"mechanism": "SCRAM-SHA-512"})

    client.expect_closed()
