"""Delegation tokens (KIP-48, KIP-373)."""

import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.sasl_client import RefusedLoginError, SaslClient
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS, SecuredBroker

DAY_MS = 86_400_000
SETTINGS = ("delegation.token.expiry.check.interval.ms=500",)
ALICE, BOB, CAROL = STORED_USERS["alice"], PLAIN_USERS["bob"], PLAIN_USERS["carol"]
NOT_FOUND, MISMATCH, NOT_ALLOWED, EXPIRED, WRONG_TYPE = 62, 63, 64, 66, 67


@pytest.fixture
def bob(connect: Callable[[], SaslClient]) -> SaslClient:
    client = connect()
    client.plain("bob", BOB)
    return client


def create(
    client: SaslClient,
    *,
    lifetime_ms: int = -1,
    renewers: Sequence[tuple[str, str]] = (),
    owner: str | None = None,
    version: int = 3,
) -> dict[str, Any]:
    body = {
        "owner_principal_type": None if owner is None else "User",
        "owner_principal_name": owner,
        "renewers": [{"principal_type": kind, "principal_name": name} for kind, name in renewers],
        "max_lifetime_ms": lifetime_ms,
    }
    return client.request("CreateDelegationToken", version, body)


def log_in(
    client: SaslClient,
    token: dict[str, Any],
    mechanism: str = "SCRAM-SHA-256",
    **changed: Any,
) -> dict[str, Any]:
    password = changed.pop("password", b64encode(token["hmac"]).decode())
    extensions = changed.pop("extensions", ",tokenauth=true")
    return client.scram(token["token_id"], password, mechanism=mechanism, extensions=extensions)


def described(client: SaslClient, owners: Any = None) -> dict[str, Any]:
    answer = client.request("DescribeDelegationToken", 3, {"owners": owners})
    assert answer["error_code"] == 0
    return {each["token_id"]: each for each in answer["tokens"]}


def test_a_token_has_an_id_a_password_and_times(bob: SaslClient) -> None:
    token = create(bob)

    assert token["error_code"] == 0
    assert (token["principal_type"], token["principal_name"]) == ("User", "bob")
    assert token["token_requester_principal_name"] == "bob"
    assert len(token["token_id"]) == 22
    assert len(token["hmac"]) == 64
    assert token["expiry_timestamp_ms"] - token["issue_timestamp_ms"] == DAY_MS
    assert token["max_timestamp_ms"] - token["issue_timestamp_ms"] == 7 * DAY_MS


@pytest.mark.parametrize(
    ("asked_ms", "expiry_ms", "longest_ms"),
    [(0, DAY_MS, 7 * DAY_MS), (8 * DAY_MS, DAY_MS, 7 * DAY_MS), (60_000, 60_000, 60_000)],
)
def test_the_asked_lifetime_is_cut(
    bob: SaslClient, asked_ms: int, expiry_ms: int, longest_ms: int
) -> None:
    token = create(bob, lifetime_ms=asked_ms)

    assert token["expiry_timestamp_ms"] - token["issue_timestamp_ms"] == expiry_ms
    assert token["max_timestamp_ms"] - token["issue_timestamp_ms"] == longest_ms


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_at_once_until_it_expires(
    bob: SaslClient, connect: Callable[[], SaslClient], mechanism: str
) -> None:
    token = create(bob, lifetime_ms=60_000)
    client = connect()

    lifetime_ms = log_in(client, token, mechanism)["session_lifetime_ms"]

    assert 55_000 < lifetime_ms <= 60_000
    assert client.is_open()
    assert log_in(connect(), token, mechanism)["session_lifetime_ms"] <= lifetime_ms


@pytest.mark.parametrize("changed", [{"password": "d3Jvbmc="}, {"extensions": ""}])
def test_a_token_needs_its_password_and_the_extension(
    bob: SaslClient, connect: Callable[[], SaslClient], changed: dict[str, Any]
) -> None:
    token = create(bob)

    with pytest.raises(RefusedLoginError) as refused:
        log_in(connect(), token, **changed)

    assert refused.value.code == 58


def test_an_ordinary_user_is_no_token(connect: Callable[[], SaslClient]) -> None:
    with pytest.raises(RefusedLoginError):
        connect().scram("alice", ALICE, extensions=",tokenauth=true")


def test_a_token_does_not_log_in_with_plain(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob)

    with pytest.raises(RefusedLoginError):
        connect().plain(token["token_id"], b64encode(token["hmac"]).decode())


def test_a_connection_of_a_token_may_not_ask_for_tokens(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob)
    client = connect()
    log_in(client, token)

    assert create(client)["error_code"] == NOT_ALLOWED
    for name, body in (
        ("RenewDelegationToken", {"hmac": token["hmac"], "renew_period_ms": -1}),
        ("ExpireDelegationToken", {"hmac": token["hmac"], "expiry_time_period_ms": -1}),
        ("DescribeDelegationToken", {"owners": None}),
    ):
        assert client.request(name, 2, body)["error_code"] == NOT_ALLOWED


def test_renewers_are_users(bob: SaslClient) -> None:
    assert create(bob, renewers=[("Group", "x")])["error_code"] == WRONG_TYPE


def test_owner_and_renewer_may_renew_and_others_not(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob, renewers=[("User", "carol")])
    carol, alice = connect(), connect()
    carol.plain("carol", CAROL)
    alice.scram("alice", ALICE)
    body = {"hmac": token["hmac"], "renew_period_ms": 2 * DAY_MS}

    renewed = carol.request("RenewDelegationToken", 2, body)

    assert renewed["error_code"] == 0
    assert renewed["expiry_timestamp_ms"] > token["expiry_timestamp_ms"]
    assert alice.request("RenewDelegationToken", 2, body)["error_code"] == MISMATCH
    body["renew_period_ms"] = 100 * DAY_MS
    longest = bob.request("RenewDelegationToken", 1, body)["expiry_timestamp_ms"]
    assert longest == token["max_timestamp_ms"]


def test_an_unknown_password_is_not_found(bob: SaslClient) -> None:
    body = {"hmac": b"x" * 64, "renew_period_ms": -1}

    assert bob.request("RenewDelegationToken", 2, body)["error_code"] == NOT_FOUND


def test_a_removed_token_does_not_log_in_and_its_connections_stay(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob)
    client = connect()
    log_in(client, token)
    body = {"hmac": token["hmac"], "expiry_time_period_ms": -1}

    assert bob.request("ExpireDelegationToken", 2, body)["error_code"] == 0

    assert bob.request("ExpireDelegationToken", 2, body)["error_code"] == NOT_FOUND
    assert client.is_open()
    with pytest.raises(RefusedLoginError):
        log_in(connect(), token)


def test_an_expired_token_does_not_log_in_even_before_it_is_removed(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob)
    body = {"hmac": token["hmac"], "expiry_time_period_ms": 0}
    bob.request("ExpireDelegationToken", 2, body)
    time.sleep(0.01)

    with pytest.raises(RefusedLoginError):
        log_in(connect(), token)
    renewal = {"hmac": token["hmac"], "renew_period_ms": -1}
    assert bob.request("RenewDelegationToken", 2, renewal)["error_code"] in {EXPIRED, NOT_FOUND}


def test_expired_tokens_are_removed(bob: SaslClient) -> None:
    token = create(bob, lifetime_ms=1)
    renewal = {"hmac": token["hmac"], "renew_period_ms": -1}
    until = time.monotonic() + 10

    while bob.request("RenewDelegationToken", 2, renewal)["error_code"] != NOT_FOUND:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_session_of_a_token_ends_with_it(
    bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob, lifetime_ms=1000)
    client = connect()
    log_in(client, token)
    time.sleep(1.1)

    client.send("Metadata", 12, {"topics": None})

    client.expect_closed()


def test_describe_names_owners_or_renewers(bob: SaslClient) -> None:
    mine = create(bob)["token_id"]
    shared = create(bob, renewers=[("User", "carol")])["token_id"]

    def owners(*names: str) -> list[dict[str, str]]:
        return [{"principal_type": "User", "principal_name": name} for name in names]

    assert {mine, shared} <= set(described(bob))
    assert described(bob, []) == {}
    assert mine not in described(bob, owners("carol"))
    assert shared in described(bob, owners("carol"))
    assert {mine, shared} <= set(described(bob, owners("nobody", "bob")))


def test_tokens_survive_kill_9(
    broker: SecuredBroker, bob: SaslClient, connect: Callable[[], SaslClient]
) -> None:
    token = create(bob, renewers=[("User", "carol")])
    broker.kill()
    broker.start()

    client = connect()
    log_in(client, token)

    assert client.is_open()
