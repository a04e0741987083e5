"""Asks the coordinators of other brokers whether batches belong to transactions (KIP-890).

    a batch that its log does not admit ──> AddPartitionsToTxn to the coordinator ──> admitted

Older producers have added their partitions themselves: this only verifies that. For newer ones
(Produce v12, TxnOffsetCommit v5) the request adds the partitions.

The answer may arrive after the transaction has ended, and its marker before the answer. A log that
admitted the producer then would take a batch that no marker ends. So each question is known by its
producer until its answer has been used, and a marker that is written meanwhile revokes the answer
(Kafka's verification guard).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from broker.codec import Fields
from broker.core.logs.log import TransactionalLog
from broker.core.peers import Calls, code_of
from broker.core.transactions.commands import Producer
from broker.core.transactions.records import TopicPartition, by_topic
from broker.model.errors import CodecError, ErrorCode, PeerError, Unreachable
from broker.model.limits import (
    CONCURRENT_TRANSACTION_RETRY_MS,
    CONCURRENT_TRANSACTION_WAIT_MS,
    REMOTE_ADMISSION_SECONDS,
)

_VERIFYING = range(4, 6)
_ADDING = range(5, 6)
_ATTEMPTS = CONCURRENT_TRANSACTION_WAIT_MS // CONCURRENT_TRANSACTION_RETRY_MS


class _Question:
    """A request whose answer has not been used yet."""

    def __init__(self) -> None:
        self.ended: set[TopicPartition] = set()  # that have got a marker of the producer meanwhile


class RemoteAdmission:
    """Admits producers to logs of this broker, on the word of coordinators elsewhere."""

    def __init__(
        self,
        broker_id: int,
        find_log: Callable[[TopicPartition], TransactionalLog | None],
        coordinator_of: Callable[[str], int | None],
        peers: Calls,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Ask nothing yet.

        Args:
            broker_id: of this broker.
            find_log: returns the log of a partition that this broker leads, or None.
            coordinator_of: returns the broker that coordinates a transactional id, a negative
                number if none does now, or None while `__transaction_state` does not exist.
            peers: sends the requests.
            sleep: waits for some seconds.
        """
        self._broker_id = broker_id
        self._find_log = find_log
        self._coordinator_of = coordinator_of
        self._peers = peers
        self._sleep = sleep
        self._questions: dict[int, list[_Question]] = {}  # by producer id

    async def admit(
        self, producer: Producer, places: Sequence[TopicPartition], *, adds: bool
    ) -> list[ErrorCode]:
        """Return an error per partition; logs accept the producer's batches where it is NONE.

        NETWORK_EXCEPTION: the coordinator cannot be reached. INVALID_TXN_STATE: the partition does
        not belong to the transaction. With `adds` all partitions are added, or none.
        """
        question = _Question()
        asked = self._questions.setdefault(producer.producer_id, [])
        asked.append(question)
        try:
            codes = await self._ask(producer, places, adds=adds)
            return [self._use(producer, place, codes, question) for place in places]
        finally:
            asked.remove(question)
            if not asked:
                self._questions.pop(producer.producer_id, None)

    def marker_written(self, producer_id: int, place: TopicPartition) -> None:
        """Revoke what is being asked about a producer's transaction in a partition."""
        for question in self._questions.get(producer_id, ()):
            question.ended.add(place)

    async def _ask(
        self, producer: Producer, places: Sequence[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask, and ask again for a short time while the producer's last transaction ends."""
        codes = await self._ask_once(producer, places, adds=adds)
        for _ in range(_ATTEMPTS if adds else 0):
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
                break
            await self._sleep(CONCURRENT_TRANSACTION_RETRY_MS / 1000)
            codes = await self._ask_once(producer, places, adds=adds)
        return codes

    async def _ask_once(
        self, producer: Producer, places: Sequence[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, ErrorCode]:
        coordinator = self._coordinator_of(producer.transactional_id)
        if coordinator is None or coordinator < 0 or coordinator == self._broker_id:
            # Nobody coordinates it now, or this broker begins to.
            return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            _, answer = await self._peers.call(
                coordinator,
                "AddPartitionsToTxn",
                _ADDING if adds else _VERIFYING,
                _request(producer, places, adds=adds),
                timeout_seconds=REMOTE_ADMISSION_SECONDS,
            )
        except (Unreachable, PeerError, CodecError):
            return dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
        return _codes(answer, places)

    def _use(
        self,
        producer: Producer,
        place: TopicPartition,
        codes: dict[TopicPartition, ErrorCode],
        question: _Question,
    ) -> ErrorCode:
        code = codes.get(place, ErrorCode.NETWORK_EXCEPTION)
        if code is not ErrorCode.NONE:
            return code
        if place in question.ended:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        log = self._find_log(place)
        if log is None or log.is_loading:  # not led here any more
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log.admit_transaction(producer.producer_id, producer.producer_epoch)
        return ErrorCode.NONE


def _request(producer: Producer, places: Sequence[TopicPartition], *, adds: bool) -> Fields:
    transactional_id, producer_id, producer_epoch = producer
    return {
        "transactions": [
            {
                "transactional_id": transactional_id,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "verify_only": not adds,
                "topics": [
                    {"name": name, "partitions": partitions}
                    for name, partitions in by_topic(places).items()
                ],
            }
        ]
    }


def _codes(
    answer: dict[str, Any], places: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    if answer["error_code"]:
        return dict.fromkeys(places, code_of(answer["error_code"]))
    return {
        (topic["name"], partition["partition_index"]): _known(
            code_of(partition["partition_error_code"])
        )
        for transaction in answer["results_by_transaction"]
        for topic in transaction["topic_results"]
        for partition in topic["results_by_partition"]
    }


def _known(code: ErrorCode) -> ErrorCode:
    """Return the code for producers of every version; their own handlers choose the newer one."""
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.TRANSACTION_ABORTABLE else code
