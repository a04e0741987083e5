"""Sends markers to the brokers that lead the partitions of a transaction (WriteTxnMarkers).

    write(owed) ──> queue of the leader ──> one request in flight per leader ──> answer(error)

What is queued in one turn of the loop, and while a request is in flight, goes together into the
next request, of REMOTE_MARKERS_PER_REQUEST_MAX markers at most. So the whole broker has as many
markers in flight as there are other leaders, times that number; the queues have one entry per
partition of a transaction that ends.

Nothing is retried here: every failure is answered with a retriable error, and the end driver calls
again after a delay, which looks for the leader again. Before a marker is sent, its leader and
whether it is still owed are checked once more. Only this broker's image of the metadata decides
that a topic was deleted: the image of the leader may be behind it. A request that was not answered
may have been served, and a marker is then written twice, which changes nothing. A leader refuses
markers of an older coordinator epoch (TRANSACTION_COORDINATOR_FENCED): another coordinator has
taken over, and owes them. They are retried here as well until this broker's image has that, which
ends the transaction's writing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker.codec import Fields
from broker.core.peers import Calls, code_of
from broker.core.transactions.other_brokers import OwedMarker
from broker.core.transactions.records import TopicPartition, by_topic
from broker.model.errors import CodecError, ErrorCode, PeerError, Unreachable
from broker.model.limits import REMOTE_MARKERS_PER_REQUEST_MAX, REMOTE_MARKERS_SECONDS

if TYPE_CHECKING:
    from broker.codec.control_records import Marker

_VERSIONS = range(1, 3)
_log = logging.getLogger(__name__)


class RemoteMarkers:
    """The markers for partitions that other brokers lead (OtherLeaders)."""

    def __init__(
        self, broker_id: int, leader_of: Callable[[TopicPartition], int | None], peers: Calls
    ) -> None:
        """Send nothing yet.

        `leader_of` returns the id of the broker that leads a partition, a negative number if none
        leads it now, or None if there is no such partition.
        """
        self._broker_id = broker_id
        self._leader_of = leader_of
        self._peers = peers
        self._queues: dict[int, deque[OwedMarker]] = {}  # those that are not empty, by leader
        self._sending: dict[int, asyncio.Task[None]] = {}

    def exists(self, place: TopicPartition) -> bool:
        """Return whether a topic has this partition, whoever leads it."""
        return self._leader_of(place) is not None

    def write(self, owed: OwedMarker) -> None:
        """Queue a marker for the leader of its partition."""
        leader = self._leader_of(owed.place)
        if leader is None or leader < 0 or leader == self._broker_id:  # whose log is not open yet
            owed.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self._queues.setdefault(leader, deque()).append(owed)
        if leader not in self._sending:
            self._sending[leader] = asyncio.ensure_future(self._send_all(leader))

    def close(self) -> None:
        """Send nothing more; what is queued is not answered."""
        for task in self._sending.values():
            task.cancel()
        self._sending.clear()
        self._queues.clear()

    async def _send_all(self, leader: int) -> None:
        """Send what is queued for a leader, request by request."""
        try:
            while leader in self._queues:
                sent = self._next(leader)
                if sent:
                    await self._send(leader, sent)
                else:
                    await asyncio.sleep(0)
        finally:
            self._sending.pop(leader, None)

    def _next(self, leader: int) -> dict[tuple[int, TopicPartition], OwedMarker]:
        """Take the markers of the next request; answer those that must not be sent any more."""
        queue = self._queues[leader]
        taken: dict[tuple[int, TopicPartition], OwedMarker] = {}
        markers: dict[int, Marker] = {}  # by producer id, as in the response
        for _ in range(min(len(queue), REMOTE_MARKERS_PER_REQUEST_MAX)):
            owed = queue[0]
            producer_id = owed.marker.producer_id
            if markers.setdefault(producer_id, owed.marker) != owed.marker:
                break
            queue.popleft()
            if not owed.is_owed():
                owed.answer(ErrorCode.NOT_COORDINATOR)
            elif self._leader_of(owed.place) != leader:
                owed.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                taken[producer_id, owed.place] = owed
        if not queue:
            del self._queues[leader]
        return taken

    async def _send(self, leader: int, sent: dict[tuple[int, TopicPartition], OwedMarker]) -> None:
        codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        try:
            _, answer = await self._peers.call(
                leader,
                "WriteTxnMarkers",
                _VERSIONS,
                _request(sent.values()),
                timeout_seconds=REMOTE_MARKERS_SECONDS,
            )
            codes = _codes(answer)
        except (Unreachable, PeerError, CodecError) as error:
            _log.info(
                "markers not written, tried again: broker=%d count=%d error=%s",
                leader,
                len(sent),
                error,
            )
        for key, owed in sent.items():
            code = codes.get(key, ErrorCode.NETWORK_EXCEPTION)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            owed.answer(code)


def _request(sent: Iterable[OwedMarker]) -> Fields:
    markers: dict[tuple[Marker, int], list[TopicPartition]] = {}
    for owed in sent:
        markers.setdefault((owed.marker, owed.version), []).append(owed.place)
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "producer_epoch": marker.producer_epoch,
                "transaction_result": marker.is_committed,
                "topics": [
                    {"name": name, "partition_indexes": partitions}
                    for name, partitions in by_topic(places).items()
                ],
                "coordinator_epoch": marker.coordinator_epoch,
                "transaction_version": version,
            }
            for (marker, version), places in markers.items()
        ]
    }


def _codes(answer: dict[str, Any]) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker["producer_id"], (topic["name"], partition["partition_index"])): code_of(
            partition["error_code"]
        )
        for marker in answer["markers"]
        for topic in marker["topics"]
        for partition in topic["partitions"]
    }
