"""The transactions of one transactional id."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker import codec
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.client.transactions import ProducerId, Transactions, new_producer_id
from broker.codec import Fields
from broker.model.errors import ErrorCode, RequestError
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, scripted_broker

APIS = ("InitProducerId", "AddPartitionsToTxn", "EndTxn")


def code(name: str) -> int:
    return codec.error_named(name).code


def answered(api: str, body: Fields, error_code: int) -> Fields:
    """An answer of the coordinator."""
    if api == "AddPartitionsToTxn":
        topics = [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": each, "partition_error_code": error_code}
                    for each in topic["partitions"]
                ],
            }
            for topic in body["v3_and_below_topics"]
        ]
        return {"results_by_topic_v3_and_below": topics}
    return {"error_code": error_code, "producer_id": 9, "producer_epoch": 3}


@contextmanager
def coordinating(**codes: list[str]) -> Iterator[tuple[ScriptedBroker, Cluster]]:
    """A coordinator, and by API the names of the errors that it returns first."""

    def answer(api: str, _version: int, body: Fields) -> Fields:
        if api == "FindCoordinator":
            address = broker.address
            return {"error_code": 0, "node_id": 1, "host": address.host, "port": address.port}
        left = codes.get(api, [])
        return answered(api, body, code(left.pop(0)) if left else 0)

    pool = Pool(ManualClock())
    with scripted_broker(answer) as broker:
        yield broker, Cluster([broker.address], give_up_seconds=10, pool=pool)
        pool.close()


def test_initialising_a_transactional_id_returns_the_producer_id() -> None:
    with coordinating() as (broker, cluster):
        transactions = Transactions(cluster, "q-0", 60_000)

    assert transactions.producer == ProducerId(9, 3)
    [asked] = broker.of("InitProducerId")
    assert asked["transactional_id"] == "q-0"
    assert asked["transaction_timeout_ms"] == 60_000
    assert broker.of("FindCoordinator")[0]["key"] == "q-0"


def test_the_coordinator_is_looked_up_again_when_it_has_moved_or_is_loading() -> None:
    busy = ["NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"]
    with coordinating(InitProducerId=busy) as (broker, cluster):
        Transactions(cluster, "q-0", 60_000)

    assert len(broker.of("InitProducerId")) == len(broker.of("FindCoordinator")) == 3


def test_partitions_are_added_once_per_transaction() -> None:
    with coordinating() as (broker, cluster):
        transactions = Transactions(cluster, "q-0", 60_000)
        transactions.add([("b", 1), ("a", 0)])
        transactions.add([("a", 0)])
        transactions.add([("a", 2), ("a", 0)])
        transactions.end(is_committed=True)
        transactions.add([("a", 0)])

    added = [
        {each["name"]: each["partitions"] for each in asked["v3_and_below_topics"]}
        for asked in broker.of("AddPartitionsToTxn")
    ]
    assert added == [{"a": [0], "b": [1]}, {"a": [2]}, {"a": [0]}]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_ends_with_the_requested_result(is_committed: bool) -> None:
    with coordinating() as (broker, cluster):
        transactions = Transactions(cluster, "q-0", 60_000)
        transactions.add([("a", 0)])
        transactions.end(is_committed=is_committed)

    [asked] = broker.of("EndTxn")
    assert asked["committed"] is is_committed
    assert (asked["producer_id"], asked["producer_epoch"]) == (9, 3)


def test_a_transaction_without_partitions_sends_no_end() -> None:
    with coordinating() as (broker, cluster):
        Transactions(cluster, "q-0", 60_000).end(is_committed=True)

    assert broker.of("EndTxn") == []


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "EndTxn"])
def test_a_fenced_producer_raises_at_once(api: str) -> None:
    with coordinating(**{api: ["PRODUCER_FENCED"]}) as (broker, cluster):
        transactions = Transactions(cluster, "q-0", 60_000)

        def write() -> None:
            transactions.add([("a", 0), ("a", 1)])
            transactions.end(is_committed=True)

        with pytest.raises(RequestError, match="'q-0'") as caught:
            write()

        assert len(broker.of(api)) == 1
    assert caught.value.code is ErrorCode.PRODUCER_FENCED


def test_a_producer_id_without_transactions_comes_from_any_broker() -> None:
    with coordinating(InitProducerId=["COORDINATOR_LOAD_IN_PROGRESS"]) as (broker, cluster):
        assert new_producer_id(cluster) == ProducerId(9, 3)

    assert [each["transactional_id"] for each in broker.of("InitProducerId")] == [None, None]
