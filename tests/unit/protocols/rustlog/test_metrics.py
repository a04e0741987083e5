"""MetricsFetch in a cluster: lags of partitions that other brokers lead."""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from broker.core.cluster_view import Leadership
from broker.core.links import Links
from broker.core.topics.topic import Topic
from broker.protocols.base import Reply
from broker.protocols.rustlog.dispatch import PROTOCOL
from broker.protocols.rustlog.handlers import metrics
from tests.support.fakes import FakeBroker
from tests.support.rustlog_client import commit
from tests.support.scripted_upstream import Nodes, Upstream, View

TOPICS = [f"t{number}" for number in range(4)]
METRICS_FETCH = b"\x09"


class _Spread(View):
    """A cluster of three brokers: partition 0 is led by broker 1, 1 by 2 and 2 by 3."""

    def leadership(self, _topic: Topic, partition: int) -> Leadership:
        leader = partition + 1
        return Leadership(leader, 3, (leader,), (leader,))


def _answer(_: int, body: bytes) -> bytes:
    """Answer as broker 2: partition 1 of every topic ends at 9."""
    if not body.startswith(b"\x07"):
        return body[:1]
    counts = (3).to_bytes(4, "big") + (1).to_bytes(4, "big")
    return body + counts + (1).to_bytes(4, "big") + (9).to_bytes(8, "big")


async def _bytes(reply: Reply) -> bytes:
    assert isinstance(reply, Awaitable)
    found = await reply
    assert isinstance(found, bytes)
    return found


def test_a_stopped_broker_costs_the_metrics_its_own_lags_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "RUSTLOG_METRICS_SECONDS", 0.5)
    fakes, protocol = FakeBroker(), PROTOCOL()
    for name in TOPICS:
        topic = fakes.create(name, 3)
        topic.logs[1] = topic.logs[2] = None

    cluster: Any = _Spread()

    async def run() -> bytes:
        is_over = asyncio.Event()

        async def stopped(_: int, body: bytes) -> bytes:
            """Answer as broker 3, which is stopped as soon as it is asked for an end."""
            if body.startswith(b"\x07"):
                await is_over.wait()
            return body[:1]

        session = fakes.session
        async with AsyncExitStack() as stack:
            two, three = [
                await stack.enter_async_context(Upstream(each)) for each in (_answer, stopped)
            ]
            links = Links(Nodes(b2=two.address, b3=three.address), lambda: 10)
            session.broker = fakes.broker._replace(links=links, cluster=cluster)
            for name in TOPICS:
                for partition in range(3):
                    body = commit("g", name, partition, 0)
                    await _bytes(protocol.handle(0, 0, None, body, session))
            found = await _bytes(protocol.handle(0, 0, None, METRICS_FETCH, session))
            is_over.set()
            links.close()
            assert sum(body.startswith(b"\x07") for body in three.bodies) == 1
        return found

    text = asyncio.run(asyncio.wait_for(run(), 20))[5:].decode()
    for name in TOPICS:
        assert f'consumer_lag{{topic="{name}",partition="0",group="g"}} 0\n' in text
        assert f'consumer_lag{{topic="{name}",partition="1",group="g"}} 9\n' in text
        assert f'topic="{name}",partition="2"' not in text
