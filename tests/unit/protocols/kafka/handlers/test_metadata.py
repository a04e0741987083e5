"""Metadata (KIP-4, KIP-516)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.core.session import Session
from broker.core.topics.rules import NewPartitions
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.handlers import metadata
from tests.support.fakes import FakeBroker, only

LEADER_EPOCH_SINCE = 7
UNKNOWN_ID = bytes(range(16))


def names(answer: dict[str, Any]) -> list[str]:
    return [topic["name"] for topic in answer["topics"]]


def test_version_0_lists_all_topics_for_an_empty_array() -> None:
    broker = FakeBroker()
    broker.create("b")
    broker.create("a")

    assert names(broker.ask(3, 0, topics=[])) == ["a", "b"]


@pytest.mark.parametrize("version", range(1, 14))
def test_null_lists_all_topics_and_an_empty_array_none(version: int) -> None:
    broker = FakeBroker()
    broker.create("a")

    assert names(broker.ask(3, version, topics=None)) == ["a"]
    assert names(broker.ask(3, version, topics=[])) == []


def test_listing_all_topics_creates_no_topic() -> None:
    broker = FakeBroker()

    broker.ask(3, 13, topics=None)

    assert list(broker.topics) == []


def test_an_unknown_topic_is_created_and_led_in_the_same_response() -> None:
    broker = FakeBroker({"num.partitions": "3"})

    topic = only(broker.ask(3, 12, topics=[{"name": "new"}])["topics"])

    assert topic["error_code"] == 0
    assert topic["topic_id"] != bytes(16)
    assert [each["leader_id"] for each in topic["partitions"]] == [1, 1, 1]
    assert len(broker.table.topics["new"][1]) == 3


def test_versions_below_4_always_allow_creation() -> None:
    broker = FakeBroker()

    broker.ask(3, 3, topics=[{"name": "new"}])

    assert broker.topics.get("new") is not None


def test_a_client_can_forbid_creation() -> None:
    broker = FakeBroker()

    answer = broker.ask(3, 4, topics=[{"name": "new"}], allow_auto_topic_creation=False)

    assert only(answer["topics"])["error_code"] == 3
    assert broker.topics.get("new") is None


def test_the_broker_can_forbid_creation() -> None:
    broker = FakeBroker({"auto.create.topics.enable": "false"})

    assert only(broker.ask(3, 13, topics=[{"name": "new"}])["topics"])["error_code"] == 3


def test_an_internal_topic_is_not_created_by_a_metadata_request() -> None:
    broker = FakeBroker()

    assert only(broker.ask(3, 13, topics=[{"name": OFFSETS_TOPIC}])["topics"])["error_code"] == 3


def test_an_internal_topic_is_listed_as_internal() -> None:
    broker = FakeBroker()
    broker.create(OFFSETS_TOPIC)

    assert only(broker.ask(3, 1, topics=None)["topics"])["is_internal"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250])
def test_an_invalid_name_is_an_invalid_topic(name: str) -> None:
    topic = only(FakeBroker().ask(3, 13, topics=[{"name": name}])["topics"])

    assert (topic["error_code"], topic["name"]) == (17, name)


def test_a_colliding_name_is_an_invalid_topic() -> None:
    broker = FakeBroker()
    broker.create("a.b")

    assert only(broker.ask(3, 13, topics=[{"name": "a_b"}])["topics"])["error_code"] == 17


def test_topics_are_returned_once_in_the_order_of_the_request() -> None:
    broker = FakeBroker()

    answer = broker.ask(3, 13, topics=[{"name": name} for name in ("c", "a", "c", "b")])

    assert names(answer) == ["c", "a", "b"]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_is_found_by_its_id(version: int) -> None:
    broker = FakeBroker()
    topic = broker.create("a")

    answer = only(
        broker.ask(3, version, topics=[{"name": None, "topic_id": topic.topic_id}])["topics"]
    )

    assert (answer["name"], answer["error_code"]) == ("a", 0)


def test_an_unknown_id_has_error_100_and_no_name() -> None:
    answer = only(
        FakeBroker().ask(3, 12, topics=[{"name": None, "topic_id": UNKNOWN_ID}])["topics"]
    )

    assert (answer["error_code"], answer["name"], answer["topic_id"]) == (100, None, UNKNOWN_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_null_names_before_version_12_are_an_invalid_request(version: int) -> None:
    answer = only(FakeBroker().ask(3, version, topics=[{"name": None}])["topics"])

    assert (answer["error_code"], answer["name"]) == (42, "")


def test_the_broker_address_is_that_of_the_listener_that_got_the_request() -> None:
    broker = FakeBroker({"broker.rack": "r1", "node.id": "7"})

    answer = broker.ask(3, 13, topics=[])

    assert only(answer["brokers"]) == {
        "node_id": 7,
        "host": "broker.example",
        "port": 9092,
        "rack": "r1",
    }
    assert answer["controller_id"] == 7
    assert answer["cluster_id"] == broker.broker.cluster_id


def test_an_offline_partition_has_no_leader() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.log("a").fail()

    partition = only(only(broker.ask(3, 13, topics=[{"name": "a"}])["topics"])["partitions"])

    assert (partition["error_code"], partition["leader_id"]) == (5, -1)
    assert partition["offline_replicas"] == [1]
    assert partition["isr_nodes"] == []


def test_authorized_operations_are_returned_only_on_request() -> None:
    broker = FakeBroker()
    broker.create("a")

    silent = broker.ask(3, 10, topics=None)
    asked = broker.ask(
        3,
        10,
        topics=None,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )

    assert silent["cluster_authorized_operations"] == -(1 << 31)
    assert only(silent["topics"])["topic_authorized_operations"] == -(1 << 31)
    assert asked["cluster_authorized_operations"] == 8096
    assert only(asked["topics"])["topic_authorized_operations"] == 3576


def test_a_loading_partition_has_its_leader_and_no_epoch_yet() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.log("a").leader_epoch = 7
    broker.log("a").is_loading = True

    loading = only(only(broker.ask(3, 9, topics=[{"name": "a"}])["topics"])["partitions"])
    broker.log("a").is_loading = False
    ready = only(only(broker.ask(3, 9, topics=[{"name": "a"}])["topics"])["partitions"])

    assert (loading["error_code"], loading["leader_id"], loading["leader_epoch"]) == (0, 1, -1)
    assert (ready["error_code"], ready["leader_id"], ready["leader_epoch"]) == (0, 1, 7)


# ---- the response for all topics is built once
# -----------------------------------------------------


def add_partition(broker: FakeBroker) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(2, None)))


def delete(broker: FakeBroker) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    asyncio.run(broker.topics.delete(topic))


def set_of_log(name: str, value: object) -> Callable[[FakeBroker], None]:
    return lambda broker: setattr(broker.log("a"), name, value)


CHANGES: dict[str, Callable[[FakeBroker], object]] = {
    "a new topic": lambda broker: broker.create("c"),
    "more partitions": add_partition,
    "a deletion": delete,
    "a failed disk": lambda broker: broker.log("a").fail(),
    "a log that loads": set_of_log("is_loading", True),
    "a new leader epoch": set_of_log("leader_epoch", 3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("version", [0, 13])
def test_a_request_for_all_topics_after_a_change_sees_it(
    change: Callable[[FakeBroker], object], version: int
) -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.create("b")
    all_topics: Any = [] if version == 0 else None
    before = broker.ask(3, version, topics=all_topics)

    change(broker)

    after = broker.ask(3, version, topics=all_topics)
    named = [{"name": topic.name} for topic in broker.topics]
    assert after == broker.ask(3, version, topics=named)
    is_epoch = change in (CHANGES["a log that loads"], CHANGES["a new leader epoch"])
    assert (after != before) == (version >= LEADER_EPOCH_SINCE or not is_epoch)


def test_the_response_for_all_topics_is_rebuilt_only_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.ask(3, 13, topics=None)

    monkeypatch.setattr(metadata, "describe_partition", None)

    assert names(broker.ask(3, 13, topics=None)) == ["a"]


def test_a_request_to_another_listener_gets_that_listeners_address() -> None:
    broker = FakeBroker()
    broker.create("a")
    first = only(broker.ask(3, 13, topics=None)["brokers"])
    broker.session = Session(broker.broker, "127.0.0.1", "other.example", 9093)

    second = only(broker.ask(3, 13, topics=None)["brokers"])

    assert (first["host"], first["port"]) == ("broker.example", 9092)
    assert (second["host"], second["port"]) == ("other.example", 9093)


def test_a_topic_named_by_its_id_is_returned_once() -> None:
    """However it is called beside that: an answer is no larger than all topics and the request."""
    broker = FakeBroker()
    topic = broker.create("a")
    wanted = [{"name": name, "topic_id": topic.topic_id} for name in ("a", "b", None)]

    assert names(broker.ask(3, 13, topics=wanted)) == ["a"]


def test_a_topic_deleted_while_all_are_described_is_omitted() -> None:
    broker = FakeBroker()
    broker.create("a", PARTITIONS_ANSWERED_PER_STEP + 1)
    last = broker.create("b")

    async def ask_and_delete() -> Any:
        asking = asyncio.ensure_future(broker.ask_soon(3, 13, topics=None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await broker.topics.delete(last)
        return await asking

    answer = asyncio.run(ask_and_delete())

    assert names(answer) in (["a"], ["a", "b"])
    assert names(broker.ask(3, 13, topics=None)) == ["a"]
