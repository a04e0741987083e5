"""The list of connections: what it tells of each, and how long it may be."""

import asyncio
import json
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.session import Session
from broker.model.principal import Principal
from broker.protocols.base import Answer
from broker.protocols.http import clients
from broker.protocols.http.dispatch import PROTOCOL
from tests.support.fakes import FakeBroker


def page(sessions: int) -> dict[str, Any]:
    broker = FakeBroker()
    made = [Session(broker.broker, "192.0.2.7", "here", 9092) for _ in range(sessions)]
    for port, each in enumerate(made, 50_000):
        each.client_port = port
    if made:
        first = made[0]
        first.principal = Principal("User", "ada")
        first.client_id, first.connected_ms = 'lo"ader', 7
        first.software = ("librdkafka", "2.11.0")
    to_another_broker = SimpleNamespace(session=None)
    opened: list[Any] = [
        to_another_broker,
        *(SimpleNamespace(session=each, served_by=None) for each in made),
    ]
    if made:
        opened[1].served_by = SimpleNamespace(name="kafka")
    broker.session.broker = broker.broker._replace(connections=lambda: opened)

    async def ask() -> bytes:
        reply = PROTOCOL().handle(0, 0, None, b"GET /clients HTTP/1.1", broker.session)
        assert isinstance(reply, Awaitable)
        answer = await reply
        assert isinstance(answer, Answer)
        assert answer.body is not None
        return answer.body

    found: dict[str, Any] = json.loads(asyncio.run(ask()).partition(b"\r\n\r\n")[2])
    return found


def test_a_connection_is_shown_with_what_its_client_has_told() -> None:
    found = page(2)

    assert (found["broker"], found["connections"], found["is_complete"]) == (1, 2, True)
    assert found["clients"][0] == {
        "address": "192.0.2.7:50000",
        "protocol": "kafka",
        "client_id": 'lo"ader',
        "software": "librdkafka",
        "software_version": "2.11.0",
        "principal": "User:ada",
        "listener": "PLAINTEXT",
        "connected_ms": 7,
    }
    assert (found["clients"][1]["client_id"], found["clients"][1]["protocol"]) == (None, "")


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_all_connections_are_shown(count: int) -> None:
    found = page(count)

    ports = [int(each["address"].rpartition(":")[2]) for each in found["clients"]]
    assert ports == list(range(50_000, 50_000 + count))


def test_a_page_that_would_be_too_long_says_that_it_is_not_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "CLIENTS_PAGE_BYTES_MAX", 30_000)

    found = page(1000)

    assert found["connections"] == 1000
    assert 0 < len(found["clients"]) < 1000
    assert not found["is_complete"]
