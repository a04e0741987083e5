"""RustLog's requests that another broker serves: what it is sent, and what the client gets."""

import asyncio
import json
from collections.abc import Awaitable

import pytest

from broker.protocols.rustlog.dispatch import PROTOCOL
from tests.support import rustlog_client
from tests.support.fakes import FakeBroker
from tests.support.scripted_upstream import Upstream, clustered

MARK = b"\x70\x00\x09127.0.0.1" + (7).to_bytes(8, "big")
MARKED = b"\x70"
ENDS = b"\x07\x00\x01t" + (3).to_bytes(4, "big") + (1).to_bytes(4, "big")
JSON = 1


def _fakes() -> FakeBroker:
    """Return a broker that leads partitions 0 and 2 of a topic, and not 1."""
    fakes = FakeBroker()
    fakes.create("t", 3).logs[1] = None
    return fakes


def _answer(_: int, body: bytes) -> bytes:
    if body == b"\xff" or body.startswith(MARKED):
        return body[:1]
    if body.startswith(b"\x07"):
        return ENDS + (1).to_bytes(4, "big") + (9).to_bytes(8, "big")
    return b"from 2: " + body


async def _asked(fakes: FakeBroker, *bodies: bytes, version: int = 0) -> list[bytes]:
    """Return the answers, then what the other broker was sent after the mark."""
    protocol, session = PROTOCOL(), fakes.session
    answers: list[bytes] = []
    async with Upstream(_answer) as upstream:
        session.broker = clustered(fakes.broker, upstream.address)
        for body in bodies:
            answer = protocol.handle(0, version, None, body, session)
            assert isinstance(answer, Awaitable)
            answers.append(await _awaited(answer))
        assert session.broker.links is not None
        session.broker.links.close()
    if upstream.bodies:
        assert upstream.bodies[:2] == [b"\xff", MARK]
    return [*answers, *upstream.bodies[2:]]


@pytest.mark.parametrize(
    "body",
    [
        rustlog_client.produce("t", 1, [b"a"]),
        rustlog_client.produce("t", 1, []),
        rustlog_client.fetch("t", 1, 0, 100),
        rustlog_client.fetch("t", 1, 0, 100, "g"),
        rustlog_client.describe_partition("t", 1),
    ],
)
def test_a_request_for_a_partition_of_another_leader_is_sent_there_as_it_is(body: bytes) -> None:
    assert asyncio.run(_asked(_fakes(), body)) == [b"from 2: " + body, body]


def test_the_json_form_is_sent_as_it_is() -> None:
    body = json.dumps({"Produce": {"topic": "t", "partition": 1, "records": [[1]]}}).encode()
    assert asyncio.run(_asked(_fakes(), body, version=JSON)) == [b"from 2: " + body, body]


def test_a_topic_has_the_ends_of_all_leaders() -> None:
    request = b"\x07\x00\x01t"
    answer, sent = asyncio.run(_asked(_fakes(), request))
    rows = [(0, 0), (1, 9), (2, 0)]
    body = b"".join(each.to_bytes(4, "big") + end.to_bytes(8, "big") for each, end in rows)
    assert answer == b"\x07\x00\x01t" + 2 * (3).to_bytes(4, "big") + body
    assert sent == request


def test_another_broker_is_told_the_own_partitions_only() -> None:
    marked, described, produced = asyncio.run(
        _asked(_fakes(), MARK, b"\x07\x00\x01t", rustlog_client.produce("t", 1, [b"a"]))
    )
    assert marked == MARKED
    assert described[4:12] == (3).to_bytes(4, "big") + (2).to_bytes(4, "big")
    assert produced.startswith(b"\xfe")


def test_an_unreachable_leader_is_a_failure_of_the_request() -> None:
    fakes = _fakes()
    fakes.session.broker = clustered(fakes.broker, None)
    answer = PROTOCOL().handle(0, 0, None, rustlog_client.produce("t", 1, [b"a"]), fakes.session)
    assert isinstance(answer, Awaitable)
    code, text = rustlog_client.read_error(asyncio.run(_awaited(answer)))
    assert code == 500
    assert text.endswith("cannot be reached, try again")


async def _awaited(answer: Awaitable[object]) -> bytes:
    found = await answer
    assert isinstance(found, bytes)
    return found
