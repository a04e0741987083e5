"""What links know of the cluster: addresses by protocol, and catching up with other brokers."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.cluster.records import BrokerState, Endpoint, Registration
from broker.model.address import Address
from broker.model.clock import Clock
from broker.model.errors import StorageError
from broker.model.limits import TOPIC_LOOKUP_PAUSE_MS, TOPICS_LEARNED_AT_ONCE
from broker.server.cluster import nodes as nodes_module
from broker.server.cluster.nodes import Nodes
from tests.support.manual_clock import ManualClock

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


def _nodes(
    metadata: Metadata,
    clock: Clock | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Nodes:
    known: Any = metadata
    return Nodes(known, (clock or ManualClock()).monotonic_ms, sleep)


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


def test_a_topic_that_is_not_in_the_store_is_looked_up_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodes_module, "TOPICS_UNKNOWN_MAX", 4)

    async def run() -> None:
        metadata, clock, pauses = Metadata(), ManualClock(), list[float]()

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)
            clock.advance(int(seconds * 1000))

        nodes = _nodes(metadata, clock, sleep)
        await nodes.learn("none")
        assert pauses == []
        await asyncio.gather(*(nodes.learn("none") for _ in range(50)))
        assert pauses == [TOPIC_LOOKUP_PAUSE_MS / 1000]
        assert metadata.reads == 2
        # Another broker creates it: this one knows it with the next request.
        metadata.stored[b"topic/none"] = 9
        await nodes.learn("none")
        assert metadata.reached_revisions == [9]
        pauses.clear()
        for number in range(20):
            await nodes.learn(f"other-{number}")
        assert pauses == []
        assert nodes.unknown_count == 4
        await nodes.learn("other-0")  # evicted
        assert pauses == []
        await nodes.learn("other-19")
        assert len(pauses) == 1

    asyncio.run(run())


def test_topics_that_are_opened_here_hold_up_no_look_up_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodes_module, "FORWARDING_FOLLOW_SECONDS", 60)

    async def run() -> None:
        metadata, opened = Metadata(), asyncio.Event()
        nodes = _nodes(metadata)
        nodes.following = SimpleNamespace(caught_up=opened.wait)  # type: ignore[assignment]
        names = [f"new-{number}" for number in range(TOPICS_LEARNED_AT_ONCE)]
        metadata.stored = {b"topic/" + name.encode(): 9 for name in names}
        learning = [asyncio.ensure_future(nodes.learn(name)) for name in names]
        while len(metadata.reached_revisions) < len(names):
            await asyncio.sleep(0.01)
        await nodes.learn("none")
        assert not any(each.done() for each in learning)
        opened.set()
        await asyncio.gather(*learning)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_store_that_fails_makes_no_request_fail() -> None:
    metadata = Metadata()
    metadata.is_broken = True
    nodes = _nodes(metadata)
    asyncio.run(nodes.learn("new"))
    assert metadata.reached_revisions == []
    assert nodes.unknown_count == 0, "the store has not told that there is no such topic"


def test_catching_up_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "FORWARDING_FOLLOW_SECONDS", 0.05)

    async def never() -> None:
        await asyncio.sleep(60)

    async def run() -> None:
        nodes = _nodes(Metadata())
        nodes.following = SimpleNamespace(caught_up=never)  # type: ignore[assignment]
        await nodes.follow(7)

    asyncio.run(asyncio.wait_for(run(), 20))
