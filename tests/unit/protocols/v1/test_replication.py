"""V1's words for replicas, where a topic has several of them."""

import asyncio
from operator import methodcaller

import pytest

from broker.core.links import Links
from broker.model.own_config import Alteration, AlterOp
from broker.protocols.v1.handlers import produce
from tests.support.replicated_topic import ReplicatedTopic
from tests.support.scripted_upstream import Nodes
from tests.unit.protocols.v1.v1_client import V1Client


class Three(ReplicatedTopic):
    """A client of broker 1."""

    def __init__(self) -> None:
        super().__init__()
        self.client = V1Client()
        links = Links(Nodes(), lambda: 10)
        broker = self.fakes.broker._replace(groups=self.client.groups, links=links)  # type: ignore[arg-type]
        self.client.session.broker = broker
        self.say = self.client.say
        assert self.say("ADMIN_CREATE_TOPIC t 1 3").startswith("OK|topic=t partitions=1")
        self.place_on(1, 2, 3)


@pytest.mark.parametrize("acks", ["", " acks=1", " acks=0"])
def test_one_acknowledgement_is_that_of_the_leader_and_hw_is_what_can_be_read(acks: str) -> None:
    three = Three()
    three.say("PRODUCE t a:x")
    three.hold_followers()

    assert three.say(f"PRODUCE t a:y{acks}") == "OK|partition=0 offset=1 hw=0"
    assert three.say("CONSUME t 0 0") == "OK|messages=0:x hw=0"
    # A CONSUME in the same send waits for it.
    assert three.client.session.take_unseen()[-1] == (three.log, 2)


def test_all_acknowledgements_are_those_of_the_replicas_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(produce, "ACKS_ALL_TIMEOUT_SECONDS", 0.01)
    three = Three()

    assert three.say("PRODUCE t a:x acks=all") == "OK|partition=0 offset=0 hw=0"
    three.hold_followers()
    assert three.say("PRODUCE t a:y acks=all") == "ERR|REPLICATION_TIMEOUT|acks=all timeout"
    three.log.sync()
    assert three.say("CONSUME t 0 0") == "OK|messages=0:x,1:y hw=1"


def test_too_few_replicas_in_sync_refuse_all_acknowledgements_and_not_one() -> None:
    three = Three()
    three.log.lacks_replicas = True

    assert three.say("PRODUCE t a:x acks=all").startswith("ERR|NOT_LEADER|")
    three.hold_followers()
    assert three.say("PRODUCE t a:x acks=1") == "OK|partition=0 offset=0 hw=-1"


def test_the_isr_is_that_of_the_cluster_whatever_clients_report() -> None:
    three = Three()
    three.say("PRODUCE t a:x")
    three.put(isr=(1, 3))

    answer = three.say("REPLICA_FETCH t 0 2 0")

    assert answer == "OK|replica=2 acked_offset=0 hw=0 isr=[1 3] under_replicated=false"


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (2, 2), (3, 3), (9, 1)])
def test_a_topic_has_as_many_replicas_as_asked_or_the_default(asked: int, given: int) -> None:
    three = Three()

    answer = three.say(f"ADMIN_CREATE_TOPIC u 2 {asked}")

    assert f" replication_factor={given} " in answer
    state = three.image.state(three.image.topic_ids["u"], 1)
    assert len(state.replicas) == given


def test_a_leader_is_moved_to_another_replica_in_sync() -> None:
    three = Three()

    async def scenario() -> str:
        asking = asyncio.ensure_future(three.client.say_soon("ADMIN_SET_PARTITION_LEADER t 0 3 3"))
        await three.hand_over(3)
        return await asking

    answer = asyncio.run(scenario())

    assert answer == "OK|topic=t partition=0 leader=3 isr=[1 2 3] term=1 index=2"


def test_a_leader_that_leads_already_is_left_alone() -> None:
    answer = Three().say("ADMIN_SET_PARTITION_LEADER t 0 1 1,0")

    assert answer == "OK|topic=t partition=0 leader=1 isr=[1 2 3] term=1 index=2"


def test_nobody_is_fenced_by_a_client() -> None:
    three = Three()

    assert three.say("ADMIN_RECONCILE_BROKER_HEALTH 1000") == "OK|reconciled=0"
    assert three.say("ADMIN_UNFENCE_BROKER 1").startswith("OK|broker_id=1 fenced=false ")
    assert three.say("ADMIN_FENCE_BROKER 1").endswith("is fenced by itself")


def test_fewer_replicas_in_sync_than_an_acks_all_needs_are_under_replicated() -> None:
    three = Three()
    three.say("PRODUCE t a:x")
    topic = three.fakes.topics.get("t")
    assert topic
    expected = {(2, (1, 3)): "false", (2, (1,)): "true", (9, (1, 2, 3)): "false"}
    for (minimum, isr), is_under_replicated in expected.items():
        changes = [Alteration("min.insync.replicas", AlterOp.SET, str(minimum))]
        asyncio.run(three.fakes.topics.alter_config(topic, methodcaller("altered", changes)))
        three.put(isr=isr)
        assert three.say("REPLICA_FETCH t 0 2 0").endswith(
            f" under_replicated={is_under_replicated}"
        )


def test_a_leader_is_not_moved_to_a_broker_that_is_not_in_sync() -> None:
    three = Three()
    three.put(isr=(1, 3))

    answer = three.say("ADMIN_SET_PARTITION_LEADER t 0 2 2")

    assert answer.startswith("ERR|BAD_REQUEST|not possible in this cluster: broker 1 leads")


def test_the_preferred_leaders_of_a_topic_are_counted() -> None:
    three = Three()

    assert three.say("ADMIN_ELECT_TOPIC_LEADERS t") == "OK|topic=t elected_changes=0"
    three.put(replicas=(2, 1, 3), isr=(1, 3))
    assert three.say("ADMIN_ELECT_TOPIC_LEADERS t") == "OK|topic=t elected_changes=0"
    three.put(isr=(1, 2, 3))

    async def scenario() -> str:
        asking = asyncio.ensure_future(three.client.say_soon("ADMIN_ELECT_TOPIC_LEADERS t"))
        await three.hand_over(2)
        return await asking

    assert asyncio.run(scenario()) == "OK|topic=t elected_changes=1"


@pytest.mark.parametrize("command", ["BROKER_FETCH t 0 1 0", "BROKER_REPLICA_ACK t 0 1 0"])
def test_records_are_not_copied_by_this_protocol(command: str) -> None:
    assert Three().say(command).endswith("its brokers copy records by Kafka's protocol")
