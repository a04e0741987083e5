"""The transactions of one producer: readers of committed records see all of one, or nothing.

    init → add partitions → produce (client/produce.py) → add … → end (commit or abort)
           ^                                                |
           +------------------------------------------------+

InitProducerId with a transactional id fences the previous producer of that id and aborts its open
transaction; one that it was already committing is committed before the response is sent. These are
Kafka's transactions before KIP-890, which every broker supports: partitions are added by a request.

Source: KIP-98; docs/spark.md describes the sink that uses them.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from broker.client.coordinators import TRANSACTION, coordinator
from broker.client.metadata import Cluster
from broker.client.offsets import Partition
from broker.client.retry import check, with_retries
from broker.codec import Fields
from broker.model.errors import RequestError, Unreachable

if TYPE_CHECKING:
    from broker.model.address import Address

_INIT_VERSIONS = range(5)
_ADD_PARTITIONS_VERSIONS = range(4)
_END_VERSIONS = range(5)


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
        body: Fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        address, answer = cluster.ask_any("InitProducerId", _INIT_VERSIONS, body)
        check(answer["error_code"], f"{address}: a producer id")
        return ProducerId(answer["producer_id"], answer["producer_epoch"])

    return with_retries(ask, give_up_seconds=cluster.give_up_seconds)


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
        answer = self._ask(
            "InitProducerId",
            _INIT_VERSIONS,
            {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms},
            lambda body: [body["error_code"]],
        )
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
        topics = [
            {"name": name, "partitions": [number for topic, number in new if topic == name]}
            for name in dict.fromkeys(topic for topic, _ in new)
        ]
        body = self._named("v3_and_below_", {"v3_and_below_topics": topics})
        self._ask("AddPartitionsToTxn", _ADD_PARTITIONS_VERSIONS, body, _codes_of_partitions)
        self._partitions.update(new)

    def end(self, *, is_committed: bool) -> None:
        """Commit or abort the transaction; do nothing if no partition was added.

        Raises:
            RequestError, Unreachable: as `add`.
        """
        if not self._partitions:
            return
        body = self._named("", {"committed": is_committed})
        self._ask("EndTxn", _END_VERSIONS, body, lambda answer: [answer["error_code"]])
        self._partitions.clear()

    def _named(self, prefix: str, fields: Fields) -> Fields:
        return {
            f"{prefix}transactional_id": self.transactional_id,
            f"{prefix}producer_id": self.producer.producer_id,
            f"{prefix}producer_epoch": self.producer.epoch,
            **fields,
        }

    def _ask(
        self, api: str, known: range, body: Fields, codes: Callable[[Fields], list[int]]
    ) -> Fields:
        """Send a request to the coordinator, which is looked up again after every failure."""

        def once() -> Fields:
            try:
                return self._ask_once(api, known, body, codes)
            except (RequestError, Unreachable):
                self._coordinator = None
                raise

        return with_retries(once, give_up_seconds=self._cluster.give_up_seconds)

    def _ask_once(
        self, api: str, known: range, body: Fields, codes: Callable[[Fields], list[int]]
    ) -> Fields:
        if self._coordinator is None:
            self._coordinator = coordinator(self._cluster, self.transactional_id, TRANSACTION)
        address = self._coordinator
        answer = self._cluster.ask(address, api, known, body)
        # Of several errors, raise the first that is not OPERATION_NOT_ATTEMPTED.
        failed = [each for each in codes(answer) if each]
        reasons = [each for each in failed if each != _NOT_ATTEMPTED] or failed
        for code in reasons:
            check(code, f"{address}: {api} of transactional id {self.transactional_id!r}")
        return answer


_NOT_ATTEMPTED = 55


def _codes_of_partitions(answer: Fields) -> list[int]:
    return [
        each["partition_error_code"]
        for topic in answer["results_by_topic_v3_and_below"]
        for each in topic["results_by_partition"]
    ]
