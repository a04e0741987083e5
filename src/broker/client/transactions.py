"""One producer's transactions: what it writes is seen by readers of committed records at once.

    open → add partitions → produce (client/produce.py) → add … → end (commit or abort)
           ^                                                |
           +------------------------------------------------+

`open` asks for a producer id by a transactional id: whoever had that id before is fenced, and what
he left open is aborted; what he was about to commit is committed before the answer comes. These are
Kafka's transactions of before KIP-890, which every broker has: partitions are added by a request.

Source: KIP-98; spark.md section 5.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from broker.client.coordinators import TRANSACTION, coordinator
from broker.client.metadata import Cluster
from broker.client.offsets import Partition
from broker.client.retry import check, patiently
from broker.codec import Fields
from broker.model.errors import RequestError, Unreachable

if TYPE_CHECKING:
    from broker.model.address import Address

_INIT_VERSIONS = range(5)
_ADD_PARTITIONS_VERSIONS = range(4)
_END_VERSIONS = range(5)


class ProducerId(NamedTuple):
    """Who writes: an id of the cluster's, and how often it was taken over."""

    producer_id: int
    epoch: int


def new_producer_id(cluster: Cluster) -> ProducerId:
    """Return an id that nobody else has, for batches that a broker recognises when sent twice.

    Raises:
        RequestError: a broker refuses.
        Unreachable: none of the addresses answers.
    """

    def ask() -> ProducerId:
        body: Fields = {"transactional_id": None, "transaction_timeout_ms": 0}
        client, answer = cluster.ask_any("InitProducerId", _INIT_VERSIONS, body)
        check(answer["error_code"], f"{client.address}: a producer id")
        return ProducerId(answer["producer_id"], answer["producer_epoch"])

    return patiently(ask, give_up_seconds=cluster.give_up_seconds)


class Transactions:
    """The transactions of one transactional id, one after the other.

    Attributes:
        transactional_id: what it is known by.
        producer: the id and epoch that its batches carry.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """Take over the transactional id.

        Args:
            cluster: where.
            transactional_id: not empty.
            timeout_ms: the coordinator aborts a transaction that is open for longer.

        Raises:
            RequestError: the coordinator refuses, the timeout for example.
            Unreachable: no broker answers, or the coordinator does not.
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
        """Let the open transaction have these partitions too; it begins with the first of them.

        Raises:
            RequestError: PRODUCER_FENCED or INVALID_PRODUCER_EPOCH: somebody has taken over the
                transactional id, or the transaction took too long.
            Unreachable: the coordinator does not answer.
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
        """Commit or abort what was written since the last end; nothing where nothing was added.

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
        """Ask the coordinator; whom, is found out again after every failure."""

        def once() -> Fields:
            try:
                return self._ask_once(api, known, body, codes)
            except (RequestError, Unreachable):
                self._coordinator = None
                raise

        return patiently(once, give_up_seconds=self._cluster.give_up_seconds)

    def _ask_once(
        self, api: str, known: range, body: Fields, codes: Callable[[Fields], list[int]]
    ) -> Fields:
        if self._coordinator is None:
            self._coordinator = coordinator(self._cluster, self.transactional_id, TRANSACTION)
        address = self._coordinator
        with self._cluster.lease(address) as client:
            answer = client.request(api, client.version(api, known), body)
        # Of several refusals the first that says why: the others were not attempted.
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
