"""Quotas of users that log in: each has its own, whatever client id its connections say."""

from collections.abc import Callable

import pytest

from tests.support import quotas, wire_requests
from tests.support.sasl_client import SaslClient
from tests.support.secured_broker import PLAIN_USERS, SecuredBroker
from tests.support.wire_records import Batch

SETTINGS = ("quota.window.num=2",)
BATCH = Batch([b"x" * 2_000]).encode()

Connect = Callable[[], SaslClient]


def logged_in(connect: Connect, user: str) -> SaslClient:
    """Return a connection of a user."""
    client = connect()
    assert client.plain(user, PLAIN_USERS[user])["error_code"] == 0
    return client


def throttle_ms(client: SaslClient, topic: str) -> int:
    """Write a batch; return for how long its client rests."""
    answer = client.request("Produce", 9, wire_requests.produce_body(topic, [(0, BATCH)]))
    assert wire_requests.produced(answer)[0] == 0
    return int(answer["throttle_time_ms"])


@pytest.fixture
def made(connect: Connect, topic: str) -> str:
    """A topic."""
    wire_requests.create_topic(logged_in(connect, "carol"), topic)
    return topic


def test_a_user_is_limited_on_all_its_connections_and_no_other_user(
    broker: SecuredBroker, connect: Connect, made: str
) -> None:
    bob, again = logged_in(connect, "bob"), logged_in(connect, "bob")
    carol = logged_in(connect, "carol")
    assert quotas.alter(carol, {"user": "bob"}, producer_byte_rate=1_000.0) == [0]

    assert throttle_ms(bob, made) > 500
    assert throttle_ms(again, made) > 1_500
    assert throttle_ms(carol, made) == 0
    assert quotas.alter(carol, {"user": "bob"}, producer_byte_rate=None) == [0]


def test_the_default_of_users_counts_for_each_of_them(
    broker: SecuredBroker, connect: Connect, made: str
) -> None:
    carol = logged_in(connect, "carol")
    assert quotas.alter(carol, {"user": None}, producer_byte_rate=1_000.0) == [0]

    of_bob = [throttle_ms(logged_in(connect, "bob"), made) for _ in range(2)]
    of_carol = throttle_ms(carol, made)

    assert of_bob[1] > of_bob[0] + 1_000
    assert 500 < of_carol < of_bob[1] - 1_000
    assert quotas.alter(logged_in(connect, "carol"), {"user": None}, producer_byte_rate=None) == [0]
