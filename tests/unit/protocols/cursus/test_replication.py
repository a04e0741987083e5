"""Cursus's words for replicas, where a topic has several of them."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.core.links import Links
from broker.core.logs import partition
from broker.model.address import Address
from broker.protocols.base import Answer
from broker.protocols.cursus.dispatch import PROTOCOL
from broker.protocols.cursus.handlers import protocol as cluster_commands
from tests.support.cursus_client import Message, batch
from tests.support.replicated_topic import ReplicatedTopic
from tests.support.scripted_upstream import Nodes


class Three(ReplicatedTopic):
    """A client of broker 1."""

    def __init__(self, create: str = "CREATE topic=t partitions=1 replication_factor=3") -> None:
        super().__init__()
        nodes = Nodes(b2=Address("host2", 9002), b3=Address("host3", 9003))
        self.fakes.session.broker = self.fakes.broker._replace(links=Links(nodes, lambda: 10))
        self.protocol = PROTOCOL()
        self.created = self.ask(create)
        if self.image.topics:
            self.place_on(1, 2, 3)

    async def ask_soon(self, content: str | bytes) -> str:
        body = content.encode() if isinstance(content, str) else content
        answer: Any = self.protocol.handle(0, 0, None, body, self.fakes.session)
        answer = await answer if isinstance(answer, Awaitable) else answer
        text = answer.body if isinstance(answer, Answer) else answer
        assert isinstance(text, bytes)
        return text.decode()

    def ask(self, content: str | bytes) -> str:
        return asyncio.run(self.ask_soon(content))

    def send(self, acks: str) -> Any:
        return json.loads(self.ask(batch("t", 0, [Message(b"x", 1, b"p")], acks=acks.encode())))


@pytest.mark.parametrize("acks", ["1", ""])
def test_one_acknowledgement_is_that_of_the_leader(acks: str) -> None:
    three = Three()
    three.hold_followers()

    assert three.send(acks)["status"] == "OK"
    assert three.log.high_watermark == 0


@pytest.mark.parametrize("acks", ["-1", "all", "ALL"])
def test_all_acknowledgements_are_those_of_the_replicas_in_sync(
    acks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "REPLICAS_WAIT_MS", 10)
    three = Three()

    assert three.send(acks)["status"] == "OK"
    three.hold_followers()
    assert three.send(acks)["status"] != "OK"


def test_too_few_replicas_in_sync_refuse_all_acknowledgements_and_not_one() -> None:
    three = Three()
    three.log.lacks_replicas = True

    assert three.send("-1")["status"] != "OK"
    assert three.log.log_end_offset == 0
    three.hold_followers()
    assert three.send("1")["status"] == "OK"


def test_a_published_message_is_acknowledged_in_the_same_way() -> None:
    three = Three()
    three.log.lacks_replicas = True
    publish = "PUBLISH topic=t partition=0 producerId=p"

    assert three.ask(f"{publish} acks=-1 message=x").startswith("ERROR")
    three.hold_followers()
    assert json.loads(three.ask(f"{publish} acks=1 message=x"))["status"] == "OK"


@pytest.mark.parametrize(("asked", "replicas"), [("", 1), (" replication_factor=2", 2)])
def test_a_topic_has_as_many_replicas_as_asked(asked: str, replicas: int) -> None:
    three = Three(f"CREATE topic=t partitions=1{asked}")

    record = three.image.topics[three.topic_id].record
    assert three.created.startswith("OK topic=t partitions=1")
    assert [len(each) for each in record.replicas] == [replicas]


def test_more_replicas_than_brokers_are_refused() -> None:
    three = Three("CREATE topic=t replication_factor=4")

    assert three.created.startswith("ERROR: invalid_replication_factor reason=")
    assert three.image.topics == {}


def test_a_topic_that_exists_keeps_its_replicas() -> None:
    three = Three()

    assert three.ask("CREATE topic=t replication_factor=3").startswith("OK topic=t")
    assert three.ask("CREATE topic=t").startswith("OK topic=t")
    refused = three.ask("CREATE topic=t replication_factor=2")
    assert refused == "ERROR: invalid_replication_factor reason=\"topic 't' has 3\""


def test_a_described_partition_has_its_replicas_and_isr() -> None:
    three = Three()
    three.put(isr=(1, 3))

    [described] = json.loads(three.ask("DESCRIBE topic=t"))["partitions"]

    assert described["leader"] == "broker.example:9092"
    assert described["replicas"] == ["broker.example:9092", "host2:9002", "host3:9003"]
    assert described["isr"] == ["broker.example:9092", "host3:9003"]


# ---- elections


def test_a_replica_in_sync_is_elected() -> None:
    three = Three()

    async def scenario() -> str:
        asking = asyncio.ensure_future(three.ask_soon("ELECT_LEADER topic=t partition=0 broker=2"))
        await three.hand_over(2)
        return await asking

    assert asyncio.run(scenario()) == (
        "OK topic=t partition=0 previous_leader=1 leader=2 leader_epoch=1 changed=true"
    )


def test_the_present_leader_stays() -> None:
    assert Three().ask("ELECT_LEADER topic=t partition=0 broker=1") == (
        "OK topic=t partition=0 previous_leader=1 leader=1 leader_epoch=0 changed=false"
    )


@pytest.mark.parametrize("broker", ["3", "9", "x"])
def test_another_broker_is_not_elected(broker: str) -> None:
    three = Three()
    three.put(isr=(1, 2))

    answer = three.ask(f"ELECT_LEADER topic=t partition=0 broker={broker}")

    assert answer.startswith(f"ERROR: invalid_broker broker={broker} reason=")


def test_a_leader_that_does_not_stop_in_time_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_commands, "_ELECTION_SECONDS", 0.01)

    answer = Three().ask("ELECT_LEADER topic=t partition=0 broker=2")

    assert answer.startswith("ERROR: invalid_broker broker=2 reason=")
