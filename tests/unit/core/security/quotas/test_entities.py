"""Whom a quota is for, its text in the metadata store, and the values that it may have."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.security.quotas.entities import (
    DEFAULT,
    Changes,
    Entity,
    check_changes,
    entity_of,
    from_json,
    parse_entity,
    to_json,
)
from broker.model.errors import ErrorCode, RequestError

names = st.one_of(st.none(), st.just(DEFAULT), st.text(min_size=1))
clients = st.builds(Entity, names, names, st.none()).filter(any)


@given(clients)
def test_the_text_of_an_entity_is_read_back(entity: Entity) -> None:
    assert parse_entity(str(entity)) == entity


@given(clients, clients)
def test_different_entities_have_different_texts(one: Entity, other: Entity) -> None:
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("user", "alice")], "user=alice"),
        ([("client-id", "a&b=c"), ("user", None)], "user&client-id=a%26b%3Dc"),
        ([("ip", None)], "ip"),
        ([("ip", "::0:1")], "ip=%3A%3A1"),
        ([("user", "Ä ü")], "user=%C3%84%20%C3%BC"),
    ],
)
def test_the_text_has_types_in_order_and_encoded_names(
    parts: list[tuple[str, str | None]], text: str
) -> None:
    assert str(entity_of(parts)) == text


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("user", "")],
        [("group", "g")],
        [("user", "a"), ("user", "b")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", None), ("client-id", None)],
        [("ip", "300.0.0.1")],
        [("ip", "example.org")],
    ],
)
def test_other_entities_are_refused_as_invalid_requests(
    parts: list[tuple[str, str | None]],
) -> None:
    with pytest.raises(RequestError) as refused:
        entity_of(parts)

    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.message


CLIENT = Entity(user="alice")
ADDRESS = Entity(ip=DEFAULT)


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        (CLIENT, {"producer_byte_rate": 1.0, "consumer_byte_rate": 1e12}),
        (CLIENT, {"request_percentage": 0.5, "controller_mutation_rate": 0.1}),
        (CLIENT, {"producer_byte_rate": None}),
        (Entity(client_id=DEFAULT), {"producer_byte_rate": 1024}),
        (Entity(DEFAULT, "c"), {"request_percentage": 1e-9}),
        (ADDRESS, {"connection_creation_rate": 5.0}),
    ],
)
def test_quotas_with_allowed_values(entity: Entity, changes: Changes) -> None:
    check_changes(entity, changes)


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        (CLIENT, {"unknown": 1.0}),
        (CLIENT, {"unknown": None}),
        (CLIENT, {"producer_byte_rate": 0.0}),
        (CLIENT, {"consumer_byte_rate": -1.0}),
        (CLIENT, {"producer_byte_rate": 1.5}),
        (CLIENT, {"request_percentage": math.nan}),
        (CLIENT, {"request_percentage": math.inf}),
        (CLIENT, {"connection_creation_rate": 5.0}),
        (ADDRESS, {"connection_creation_rate": 0.5}),
        (ADDRESS, {"producer_byte_rate": 5.0}),
        (CLIENT, {"request_percentage": 1.0, "producer_byte_rate": 0.5}),
    ],
)
def test_other_values_are_refused_as_invalid_requests(entity: Entity, changes: Changes) -> None:
    with pytest.raises(RequestError) as refused:
        check_changes(entity, changes)

    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_stored_quotas_are_read_back() -> None:
    assert from_json(to_json({"producer_byte_rate": 5.0})) == {"producer_byte_rate": 5.0}


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]",
        b'{"version": 2, "quotas": {}}',
        b'{"version": 1, "quotas": {"producer_byte_rate": "5"}}',
        b'{"version": 1, "quotas": {"producer_byte_rate": true}}',
        b'{"version": 1, "quotas": {"producer_byte_rate": 0}}',
        b'{"version": 1, "quotas": {"producer_byte_rate": NaN}}',
        b"\xff",
    ],
)
def test_damaged_quotas_are_not_read(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several decoders
        from_json(stored)
