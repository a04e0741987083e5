"""What links know of the cluster: addresses by protocol, and catching up with other brokers."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.model.address import Address
from broker.model.errors import StorageError
from broker.server.cluster import nodes as nodes_module
from broker.server.cluster.nodes import Nodes

PINNED = (Endpoint("kafka", "k", 1), Endpoint("v1", "v", 2), Endpoint("", "all", 3))


class Metadata:
    """A store that a test changes, and an image that follows when the test says so."""

    def __init__(self) -> None:
        registration = Registration("i", PINNED, None, "h", BrokerState.RUNNING)
        only = SimpleNamespace(registration=registration)
        self.image = SimpleNamespace(revision=5, brokers={2: only})
        self.stored: dict[bytes, int] = {}
        self.reads = 0
        self.reached_revisions: list[int] = []
        self.is_broken = False

    async def reached(self, revision: int, _seconds: float) -> bool:
        self.reached_revisions.append(revision)
        return True

    async def get(self, key: bytes) -> Any:
        self.reads += 1
        await asyncio.sleep(0.01)
        if self.is_broken:
            raise StorageError("planted")
        revision = self.stored.get(key)
        return None if revision is None else SimpleNamespace(mod_revision=revision)


def _nodes(metadata: Metadata) -> Nodes:
    known: Any = metadata
    return Nodes(known)


def test_a_broker_is_reached_at_its_first_listener_of_the_protocol() -> None:
    nodes = _nodes(Metadata())
    assert nodes.address_of(2, "v1") == Address("v", 2)
    assert nodes.address_of(2, "cursus") == Address("all", 3)
    assert nodes.address_of(3, "v1") is None


def test_a_topic_of_the_store_is_followed_and_one_that_is_not_there_is_not() -> None:
    async def run() -> None:
        metadata = Metadata()
        metadata.stored[b"topic/new"] = 9
        nodes = _nodes(metadata)
        await asyncio.gather(nodes.learn("new"), nodes.learn("new"), nodes.learn("none"))
        assert metadata.reached_revisions == [9]
        assert metadata.reads == 2
        await nodes.learn("new")
        assert metadata.reads == 3

    asyncio.run(run())


def test_a_store_that_fails_makes_no_request_fail() -> None:
    metadata = Metadata()
    metadata.is_broken = True
    asyncio.run(_nodes(metadata).learn("new"))
    assert metadata.reached_revisions == []


def test_catching_up_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "FORWARDING_FOLLOW_SECONDS", 0.05)

    async def never() -> None:
        await asyncio.sleep(60)

    async def run() -> None:
        nodes = _nodes(Metadata())
        nodes.following = SimpleNamespace(caught_up=never)  # type: ignore[assignment]
        await nodes.follow(7)

    asyncio.run(asyncio.wait_for(run(), 20))
