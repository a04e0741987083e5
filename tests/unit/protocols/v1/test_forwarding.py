"""V1's commands that another broker serves: what it is sent, and what the client gets."""

import asyncio
from collections.abc import Sequence

import pytest

from broker.core.cluster.records import NO_LEADER
from tests.support.scripted_upstream import Upstream, clustered
from tests.unit.protocols.v1.v1_client import V1Client

MARK = b"V1|0|BROKER_FORWARDING|192.0.2.7 7"
ACCEPTED = b"V1|0|OK|forwarding=true\n"


def _client() -> V1Client:
    """Return a client of a broker that leads partition 0 of a topic, and not 1 and 2."""
    client = V1Client()
    topic = client.fakes.create("t", 3)
    topic.logs[1] = topic.logs[2] = None
    return client


def _answer(_: int, line: bytes) -> bytes:
    return ACCEPTED if line.startswith(MARK[:20]) else b"V1|1|OK|" + line[5:] + b"\n"


async def _said(client: V1Client, commands: Sequence[str], *, leader: int = 2) -> list[str]:
    async with Upstream(_answer, is_lines=True) as upstream:
        client.session.broker = clustered(client.session.broker, upstream.address, leader=leader)
        answers = [await client.say_soon(command) for command in commands]
        links = client.session.broker.links
        assert links is not None
        links.close()
    return [*answers, *map(bytes.decode, upstream.bodies)]


@pytest.mark.parametrize(
    "command",
    [
        "PRODUCE t a:x",
        "PRODUCE t a:x acks=all",
        "CONSUME t 1 0",
        "REPLICA_FETCH t 1 1 0",
        "SET_PARTITION_ROLE t 2 follower",
    ],
)
def test_a_command_for_a_partition_of_another_leader_is_sent_there_as_it_is(command: str) -> None:
    word, _, args = command.partition(" ")
    answer, mark, line = asyncio.run(_said(_client(), [command]))
    assert mark.encode() == MARK
    assert line == f"V1|1|{word}|{args}"
    assert answer == f"OK|{word}|{args}"


def test_a_command_for_an_own_partition_is_served_here() -> None:
    [answer] = asyncio.run(_said(_client(), ["CONSUME t 0 0"]))
    assert answer == "OK|messages= hw=-1"


@pytest.mark.parametrize("command", ["PRODUCE t ax", "PRODUCE t a:x acks=2", "CONSUME t 3 0"])
def test_an_invalid_command_is_refused_here(command: str) -> None:
    [answer] = asyncio.run(_said(_client(), [command]))
    assert answer.startswith("ERR|BAD_REQUEST|")


def test_without_a_leader_the_client_is_asked_to_try_again() -> None:
    [answer] = asyncio.run(_said(_client(), ["PRODUCE t a:x"], leader=NO_LEADER))
    assert answer.startswith("ERR|NOT_LEADER|")


def test_a_leader_that_cannot_be_reached_is_no_leader() -> None:
    client = _client()
    client.session.broker = clustered(client.session.broker, None)
    assert client.say("PRODUCE t a:x").startswith("ERR|NOT_LEADER|")


def test_a_forwarded_command_is_not_forwarded_again() -> None:
    answers = asyncio.run(_said(_client(), ["BROKER_FORWARDING 198.51.100.9 5", "PRODUCE t a:x"]))
    assert answers[0] == "OK|forwarding=true"
    assert answers[1].startswith("ERR|NOT_LEADER|")
    assert len(answers) == 2


def test_the_cluster_has_all_its_brokers() -> None:
    [answer] = asyncio.run(_said(_client(), ["ADMIN_GET_METADATA"]))
    assert answer == "OK|topics=[t] brokers=[1 2] fenced=[]"


def test_what_the_controller_decides_is_refused_with_the_reason() -> None:
    [answer] = asyncio.run(_said(_client(), ["ADMIN_FENCE_BROKER 2"]))
    reason = "a broker whose lease has ended is fenced by itself"
    assert answer == f"ERR|BAD_REQUEST|not possible in this cluster: {reason}"
