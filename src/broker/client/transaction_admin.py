"""Transactions from outside: the list, their state, the producers of a partition, abortion.

A transaction hangs if a partition has it open while its coordinator does not know it: consumers of
committed records wait for its end. `abort` writes the missing marker, as kafka-transactions.sh does
(KIP-664). One that its coordinator knows is aborted by initialising its transactional id.
"""

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.client.brokers import live_brokers
from broker.client.connection import Api
from broker.client.coordinators import TRANSACTION, coordinator
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check
from broker.model.address import Address

if TYPE_CHECKING:
    from broker.codec import bodies

_LIST: "Api[bodies.ListTransactionsRequest, bodies.ListTransactionsResponse]" = Api(
    "ListTransactions", range(3)
)
_DESCRIBE: "Api[bodies.DescribeTransactionsRequest, bodies.DescribeTransactionsResponse]" = Api(
    "DescribeTransactions", range(1)
)
_PRODUCERS: "Api[bodies.DescribeProducersRequest, bodies.DescribeProducersResponse]" = Api(
    "DescribeProducers", range(1)
)
_MARKERS: "Api[bodies.WriteTxnMarkersRequest, bodies.WriteTxnMarkersResponse]" = Api(
    "WriteTxnMarkers", range(1, 2)
)


class Listed(NamedTuple):
    """A transactional id in the list, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Transaction(NamedTuple):
    """The state of a transactional id; started_ms is None if none is open."""

    transactional_id: str
    coordinator: Address
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[Partition, ...]


class ActiveProducer(NamedTuple):
    """A producer that has written to a partition.

    coordinator_epoch is that of its last marker, -1 for none; transaction_start is the offset of
    its open transaction's first record, None for none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


def list_transactions(
    cluster: Cluster,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int | None = None,
) -> list[Listed]:
    """Ask every broker for the transactional ids that it coordinates; sorted by name.

    Args:
        cluster: the cluster.
        states: only those in one of these; empty: in all.
        producer_ids: only those with one of these; empty: with any.
        longer_than_ms: only transactions that are open for longer (brokers since Kafka 3.8).

    Raises:
        RequestError: a broker refuses.
        Unreachable: a broker does not respond.
    """
    body: bodies.ListTransactionsRequest = {
        "state_filters": sorted(states),
        "producer_id_filters": sorted(producer_ids),
        "duration_filter": -1 if longer_than_ms is None else longer_than_ms,
        "transactional_id_pattern": None,
    }

    def ask(broker_id: int, address: Address) -> list[Listed]:
        answer = cluster.ask(address, _LIST, body)
        check(answer["error_code"], f"{address}: the list of transactions")
        return [
            Listed(
                each["transactional_id"],
                broker_id,
                each["producer_id"],
                each["transaction_state"],
            )
            for each in answer["transaction_states"]
        ]

    found = []
    for broker_id, address in live_brokers(cluster).items():
        found += cluster.retried(partial(ask, broker_id, address))
    return sorted(found)


def describe_transaction(cluster: Cluster, transactional_id: str) -> Transaction:
    """Describe a transactional id.

    Raises:
        RequestError: TRANSACTIONAL_ID_NOT_FOUND, or the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """

    def ask() -> Transaction:
        address = coordinator(cluster, transactional_id, TRANSACTION)
        body: bodies.DescribeTransactionsRequest = {"transactional_ids": [transactional_id]}
        answer = cluster.ask(address, _DESCRIBE, body)
        [found] = answer["transaction_states"]
        check(found["error_code"], f"{address}: transactional id {transactional_id!r}")
        started = found["transaction_start_time_ms"]
        return Transaction(
            transactional_id,
            address,
            found["producer_id"],
            found["producer_epoch"],
            found["transaction_state"],
            found["transaction_timeout_ms"],
            started if started >= 0 else None,
            tuple(
                sorted(
                    (each["topic"], part) for each in found["topics"] for part in each["partitions"]
                )
            ),
        )

    return cluster.retried(ask)


def describe_producers(
    cluster: Cluster, partitions: Collection[Partition]
) -> dict[Partition, list[ActiveProducer]]:
    """Return the producers that the leaders of partitions know.

    Raises:
        RequestError: a leader refuses, or a partition does not exist.
        Unreachable: a leader does not respond.
    """

    def body(wanted: list[Partition]) -> "bodies.DescribeProducersRequest":
        return {
            "topics": [
                {"name": name, "partition_indexes": numbers}
                for name, numbers in by_topic(wanted).items()
            ]
        }

    def read(
        address: Address, answer: "bodies.DescribeProducersResponse"
    ) -> dict[Partition, list[ActiveProducer]]:
        found = {}
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"], each["partition_index"]
                check(each["error_code"], f"{address}: producers of {key[0]}-{key[1]}")
                found[key] = [_producer(producer) for producer in each["active_producers"]]
        return found

    answers = cluster.ask_leaders(partitions, _PRODUCERS, body, read)
    return {key: found for answer in answers for key, found in answer.items()}


def _producer(found: "bodies.DescribeProducersResponseActiveProducer") -> ActiveProducer:
    start = found.get("current_txn_start_offset", -1)
    return ActiveProducer(
        found["producer_id"],
        found["producer_epoch"],
        found.get("last_sequence", -1),
        found.get("last_timestamp", -1),
        found["coordinator_epoch"],
        start if start >= 0 else None,
    )


def abort(cluster: Cluster, partition: Partition, producer: ActiveProducer) -> None:
    """Write an abort marker for a producer to a partition.

    Raises:
        RequestError: the leader refuses, for example because the epoch is not the current one.
        Unreachable: the leader does not respond.
    """
    topic, number = partition
    body: bodies.WriteTxnMarkersRequest = {
        "markers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "transaction_result": False,
                "topics": [{"name": topic, "partition_indexes": [number]}],
                # A producer without a marker has -1; markers have an epoch of at least 0.
                "coordinator_epoch": max(producer.coordinator_epoch, 0),
            }
        ]
    }

    def read(address: Address, answer: "bodies.WriteTxnMarkersResponse") -> None:
        for marker in answer["markers"]:
            for found in marker["topics"]:
                for each in found["partitions"]:
                    what = f"{address}: abort marker of {topic}-{number}"
                    check(each["error_code"], what)

    cluster.ask_leaders([partition], _MARKERS, lambda _: body, read)
