"""Topics and leaders, from any broker that answers."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker.client.connection import Api
from broker.client.metadata import Cluster, Partition
from broker.client.offsets import EARLIEST, LATEST, Found, list_offsets
from broker.client.pool import Pool
from broker.codec import Fields
from broker.model.address import Address
from broker.model.errors import ErrorCode, RequestError, Unreachable
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, metadata_of, scripted_broker

ID = "0123456789abcdef" * 2
HEARTBEAT: Api[Fields, Fields] = Api("Heartbeat", range(1, 4))


Clusters = Callable[..., Cluster]


@pytest.fixture
def cluster_of() -> Iterator[Clusters]:
    """Makes clusters of addresses that are tried once."""
    pool = Pool(ManualClock())
    yield lambda *addresses: Cluster(addresses, give_up_seconds=0, pool=pool)
    pool.close()


def unused_address() -> Address:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return Address("127.0.0.1", unused.getsockname()[1])


@contextmanager
def with_topics(*topics: str) -> Iterator[ScriptedBroker]:
    """A broker that knows these and nothing else."""

    def answer(api: str, _version: int, body: Fields) -> Fields:
        if api == "Heartbeat":
            return {"error_code": 0}
        wanted = topics if body["topics"] is None else [each["name"] for each in body["topics"]]
        found = metadata_of(broker.address, dict.fromkeys(wanted, ID), 3)
        for each in found["topics"]:
            if each["name"] not in topics:
                each |= {"error_code": 3, "partitions": [], "topic_id": bytes(16)}
        return found

    with scripted_broker(answer) as broker:
        yield broker


def test_a_topic_has_its_id_and_partitions(cluster_of: Clusters) -> None:
    with with_topics("a", "b") as broker:
        [found] = cluster_of(broker.address).topics(["a"]).values()

    assert (found.name, found.topic_id, found.partitions) == ("a", ID, (0, 1, 2))


def test_a_metadata_request_never_creates_a_topic(cluster_of: Clusters) -> None:
    with with_topics("a") as broker:
        cluster_of(broker.address).topics(["a"])

    assert not any(each["allow_auto_topic_creation"] for each in broker.of("Metadata"))


def test_unknown_topics_are_reported_with_the_address(cluster_of: Clusters) -> None:
    with (
        with_topics("a") as broker,
        pytest.raises(RequestError, match=f"{broker.address}: there is no topic named 'b', 'c'"),
    ):
        cluster_of(broker.address).topics(["c", "a", "b"])


def test_topics_that_may_be_missing_are_omitted(cluster_of: Clusters) -> None:
    with with_topics("a", "b") as broker:
        cluster = cluster_of(broker.address)

        assert set(cluster.existing_topics()) == {"a", "b"}
        assert set(cluster.existing_topics(["b", "c"])) == {"b"}


def test_the_next_address_is_tried_when_one_does_not_answer(cluster_of: Clusters) -> None:
    with with_topics("a") as broker:
        assert cluster_of(unused_address(), broker.address).topics(["a"])


def test_every_address_is_named_when_none_answers(cluster_of: Clusters) -> None:
    one, other = unused_address(), unused_address()

    with pytest.raises(Unreachable, match=f"no broker at {one} .*; no broker at {other}"):
        cluster_of(one, other).topics(["a"])


def ask_leaders(
    cluster: Cluster, partitions: list[Partition], code: ErrorCode | None = None
) -> list[Address]:
    """Send a request to leaders, whose responses have an error if `code` is given."""

    def read(address: Address, _: Fields) -> Address:
        if code is not None:
            raise RequestError(code, "refused")
        return address

    return cluster.ask_leaders(partitions, HEARTBEAT, lambda _: {}, read)


def test_leaders_are_looked_up_once_and_again_after_an_error_of_one(cluster_of: Clusters) -> None:
    with with_topics("a") as broker:
        cluster = cluster_of(broker.address)
        both = [("a", 0), ("a", 2)]

        for wanted in (both, [("a", 1)], both):
            assert ask_leaders(cluster, wanted) == [broker.address]
        assert len(broker.of("Metadata")) == 1
        with pytest.raises(RequestError, match="refused"):
            ask_leaders(cluster, both, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ask_leaders(cluster, [("a", 1)])
        assert len(broker.of("Metadata")) == 2


def test_a_partition_without_a_leader_is_reported(cluster_of: Clusters) -> None:
    with (
        with_topics("a") as broker,
        pytest.raises(RequestError, match="no broker leads partition 3 of 'a'") as raised,
    ):
        ask_leaders(cluster_of(broker.address), [("a", 3)])
    assert raised.value.code is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("a", ID, ErrorCode.LEADER_NOT_AVAILABLE),
        ("a", "", ErrorCode.LEADER_NOT_AVAILABLE),
        ("a", ID[::-1], ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_topic_that_a_leader_does_not_know_is_gone_only_if_the_metadata_says_so(
    cluster_of: Clusters, name: str, topic_id: str, code: ErrorCode
) -> None:
    def refuse(*_: object) -> None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "refused")

    with with_topics("a") as broker:
        cluster = cluster_of(broker.address)
        cluster._leaders[name, 0] = broker.address
        with pytest.raises(RequestError) as raised:
            cluster.ask_leaders(
                [(name, 0)], HEARTBEAT, lambda _: {}, refuse, topic_ids={name: topic_id}
            )
    assert raised.value.code is code
    assert len(broker.of("Metadata")) == 1


def test_offsets_of_many_partitions_are_requested_at_once(cluster_of: Clusters) -> None:
    def answer(api: str, _version: int, body: Fields) -> Fields:
        if api == "Metadata":
            return metadata_of(broker.address, {"a": ID}, 2)
        times = {LATEST: 90, EARLIEST: 5, 1000: 7}
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {
                            "partition_index": each["partition_index"],
                            "offset": times[each["timestamp"]],
                            "timestamp": each["timestamp"],
                        }
                        for each in topic["partitions"]
                    ],
                }
                for topic in body["topics"]
            ]
        }

    with scripted_broker(answer) as broker:
        cluster = cluster_of(broker.address)
        found = list_offsets(cluster, {("a", 0): LATEST, ("a", 1): 1000}, is_committed=True)
        assert list_offsets(cluster, {("a", 0): EARLIEST})["a", 0].offset == 5

    assert found == {("a", 0): Found(90, -1), ("a", 1): Found(7, 1000)}
    assert [each["isolation_level"] for each in broker.of("ListOffsets")] == [1, 0]


def test_a_refused_list_offsets_names_broker_and_partition(cluster_of: Clusters) -> None:
    def answer(api: str, _version: int, _body: Fields) -> Fields:
        if api == "Metadata":
            return metadata_of(broker.address, {"a": ID}, 1)
        part = {"partition_index": 0, "error_code": 29, "offset": -1}
        return {"topics": [{"name": "a", "partitions": [part]}]}

    with (
        scripted_broker(answer) as broker,
        pytest.raises(RequestError, match=f"{broker.address}: offsets of a-0: not authorized"),
    ):
        list_offsets(cluster_of(broker.address), {("a", 0): LATEST})
