"""The transactions of one producer: readers of committed records see all of one, or nothing.

    init → add partitions → produce (client/produce.py) → add … → end (commit or abort)
           ^                                                |
           +------------------------------------------------+

InitProducerId with a transactional id fences the previous producer of that id and aborts its open
transaction; one that it was already committing is committed before the response is sent. These are
Kafka's transactions before KIP-890, which every broker supports: partitions are added by a request.

Source: KIP-98; docs/spark.md describes the sink that uses them.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker.client.connection import Api, RequestT, ResponseT
from broker.client.coordinators import TRANSACTION, coordinator
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.model.address import Address

_INIT: "Api[bodies.InitProducerIdRequest, bodies.InitProducerIdResponse]" = Api(
    "InitProducerId", range(5)
)
_ADD: "Api[bodies.AddPartitionsToTxnRequest, bodies.AddPartitionsToTxnResponse]" = Api(
    "AddPartitionsToTxn", range(4)
)
_END: "Api[bodies.EndTxnRequest, bodies.EndTxnResponse]" = Api("EndTxn", range(5))
_NOT_ATTEMPTED = 55


class ProducerId(NamedTuple):
    """A producer id of the cluster, and its epoch."""

    producer_id: int
    epoch: int


def new_producer_id(cluster: Cluster) -> ProducerId:
    """Return a new producer id, with which brokers recognise batches that are sent again.

    Raises:
        RequestError: a broker refuses.
        Unreachable: none of the addresses responds.
    """

    def ask() -> ProducerId:
        body: bodies.InitProducerIdRequest = {"transactional_id": None, "transaction_timeout_ms": 0}
        address, answer = cluster.ask_any(_INIT, body)
        check(answer["error_code"], f"{address}: a producer id")
        return ProducerId(answer["producer_id"], answer["producer_epoch"])

    return cluster.retried(ask)


class Transactions:
    """The transactions of one transactional id, one after the other.

    Attributes:
        transactional_id: the transactional id.
        producer: the producer id and epoch that batches must contain.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """Initialise the transactional id and fence its previous producer.

        Args:
            cluster: the cluster.
            transactional_id: not empty.
            timeout_ms: the coordinator aborts a transaction that is open for longer.

        Raises:
            RequestError: the coordinator refuses, for example because of the timeout.
            Unreachable: no broker responds, or the coordinator does not.
        """
        self.transactional_id = transactional_id
        self._cluster = cluster
        self._coordinator: Address | None = None
        self._partitions: set[Partition] = set()
        body: bodies.InitProducerIdRequest = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
        }
        answer = self._ask(_INIT, body, lambda answer: [answer["error_code"]])
        self.producer = ProducerId(answer["producer_id"], answer["producer_epoch"])

    def add(self, partitions: Collection[Partition]) -> None:
        """Add partitions to the transaction; the first ones begin it.

        Raises:
            RequestError: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: another producer has
                initialised the transactional id, or the transaction timed out.
            Unreachable: the coordinator does not respond.
        """
        new = sorted(set(partitions) - self._partitions)
        if not new:
            return
        body: bodies.AddPartitionsToTxnRequest = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.producer.producer_id,
            "v3_and_below_producer_epoch": self.producer.epoch,
            "v3_and_below_topics": [
                {"name": name, "partitions": numbers} for name, numbers in by_topic(new).items()
            ],
        }
        self._ask(_ADD, body, _codes_of_partitions)
        self._partitions.update(new)

    def end(self, *, is_committed: bool) -> None:
        """Commit or abort the transaction; do nothing if no partition was added.

        Raises:
            RequestError, Unreachable: as `add`.
        """
        if not self._partitions:
            return
        body: bodies.EndTxnRequest = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch,
            "committed": is_committed,
        }
        self._ask(_END, body, lambda answer: [answer["error_code"]])
        self._partitions.clear()

    def _ask(
        self,
        api: Api[RequestT, ResponseT],
        body: RequestT,
        codes: Callable[[ResponseT], Iterable[int]],
    ) -> ResponseT:
        """Send a request to the coordinator, which is looked up again after every failure."""

        def once() -> ResponseT:
            address = self._coordinator or coordinator(
                self._cluster, self.transactional_id, TRANSACTION
            )
            self._coordinator = None
            answer = self._cluster.ask(address, api, body)
            # Of several errors, raise the first that is not OPERATION_NOT_ATTEMPTED.
            for code in sorted(codes(answer), key=lambda code: code == _NOT_ATTEMPTED):
                check(code, f"{address}: {api.name} of transactional id {self.transactional_id!r}")
            self._coordinator = address
            return answer

        return self._cluster.retried(once)


def _codes_of_partitions(answer: "bodies.AddPartitionsToTxnResponse") -> list[int]:
    return [
        each["partition_error_code"]
        for topic in answer["results_by_topic_v3_and_below"]
        for each in topic["results_by_partition"]
    ]
