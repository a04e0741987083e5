"""Appends records of the broker itself to partitions that other brokers lead, by Produce."""

from collections.abc import Callable
from typing import Any

from broker.core.peers import Calls, code_of
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError, Unreachable
from broker.model.security_limits import REMOTE_APPEND_SECONDS

_VERSIONS = range(9, 10)
_ALL = -1
_MS = 1000


class RemoteAppends:
    """Sends batches to the leaders of their partitions."""

    def __init__(self, leader_of: Callable[[str, int], int | None], peers: Calls) -> None:
        """Keep how to find leaders: their ids, negative for none, None for no such partition."""
        self._leader_of = leader_of
        self._peers = peers

    async def append(self, topic: str, partition: int, batch: bytes) -> None:
        """Append a batch; at return all replicas in sync have it.

        RequestError: it may have been appended all the same.
        """
        leader = self._leader_of(topic, partition)
        if leader is None or leader < 0:
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE)
        body: dict[str, Any] = {
            "transactional_id": None,
            "acks": _ALL,
            "timeout_ms": REMOTE_APPEND_SECONDS * _MS,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
            ],
        }
        try:
            _, answer = await self._peers.call(
                leader, "Produce", _VERSIONS, body, timeout_seconds=REMOTE_APPEND_SECONDS
            )
        except (Unreachable, PeerError, CodecError) as error:
            raise RequestError(ErrorCode.NETWORK_EXCEPTION, str(error)) from None
        [found] = answer["responses"][0]["partition_responses"]
        code = code_of(found["error_code"])
        if code is not ErrorCode.NONE:
            raise RequestError(code, found["error_message"] or "")
