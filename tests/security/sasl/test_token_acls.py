"""Who may see and make the delegation tokens of others, by ACLs (KIP-373)."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.acl_broker import STANDARD_AUTHORIZER, TOKEN, USER, acl
from tests.support.sasl_client import SaslClient
from tests.support.secured_broker import PLAIN_USERS, STORED_USERS

SETTINGS = (f"authorizer.class.name={STANDARD_AUTHORIZER}", "super.users=User:bob")
AUTHORIZATION_FAILED = 65


@pytest.fixture
def admin(connect: Callable[[], SaslClient]) -> Iterator[SaslClient]:
    """A connection of the super user; what ACLs it makes are deleted in the end."""
    client = connect()
    client.plain("bob", PLAIN_USERS["bob"])
    yield client
    anything = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    client.request("DeleteAcls", 3, {"filters": [anything]})


@pytest.fixture
def alice(connect: Callable[[], SaslClient]) -> SaslClient:
    client = connect()
    client.plain("alice", STORED_USERS["alice"])
    return client


def allow(admin: SaslClient, operation: str, resource: int, name: str) -> None:
    creations = [acl(operation, resource, name)]
    [result] = admin.request("CreateAcls", 3, {"creations": creations})["results"]
    assert result["error_code"] == 0


def make(client: SaslClient, owner: str | None = None) -> tuple[int, str]:
    """Make a token; return the error and its id."""
    kind = None if owner is None else "User"
    answer = client.request(
        "CreateDelegationToken",
        3,
        {"owner_principal_type": kind, "owner_principal_name": owner, "max_lifetime_ms": -1},
    )
    return answer["error_code"], answer["token_id"]


def seen(client: SaslClient) -> set[str]:
    tokens = client.request("DescribeDelegationToken", 3, {"owners": None})["tokens"]
    return {each["token_id"] for each in tokens}


@pytest.fixture
def of_carol(connect: Callable[[], SaslClient]) -> list[str]:
    """Two tokens of another user."""
    client = connect()
    client.plain("carol", PLAIN_USERS["carol"])
    return [make(client)[1] for _ in range(2)]


def test_the_token_of_another_user_is_seen_with_describe_on_it(
    admin: SaslClient, alice: SaslClient, of_carol: list[str]
) -> None:
    first, second = of_carol
    assert seen(alice).isdisjoint(of_carol)

    allow(admin, "Describe", TOKEN, first)

    assert first in seen(alice)
    assert second not in seen(alice)


def test_all_tokens_of_another_user_are_seen_with_describe_tokens_on_the_user(
    admin: SaslClient, alice: SaslClient, of_carol: list[str]
) -> None:
    allow(admin, "DescribeTokens", USER, "User:carol")

    assert set(of_carol) <= seen(alice)


def test_a_token_for_another_user_needs_create_tokens_on_the_user(
    admin: SaslClient, alice: SaslClient
) -> None:
    assert make(alice, "carol")[0] == AUTHORIZATION_FAILED

    allow(admin, "CreateTokens", USER, "User:carol")

    assert make(alice, "carol")[0] == 0
    assert make(alice, "bob")[0] == AUTHORIZATION_FAILED
