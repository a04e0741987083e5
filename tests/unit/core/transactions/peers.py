"""The other brokers of a cluster, for the tests of transactions: what they get and answer."""

import asyncio
from typing import TYPE_CHECKING, Any

from broker.codec import Fields
from broker.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable


class FakePeers:
    """Records requests; each is answered at once by `answer`, or when a test releases it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, Any]] = []  # broker, API, body
        self.versions: list[range] = []
        self.answer: Callable[[int, Any], Any] = lambda _broker, body: written(body)
        self.held: asyncio.Event | None = None  # None: nothing waits

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        assert timeout_seconds > 0
        self.asked.append((broker_id, api, body))
        self.versions.append(versions)
        if self.held is not None:
            await self.held.wait()
        answer = self.answer(broker_id, body)
        if isinstance(answer, Exception):
            raise answer
        return versions.stop - 1, answer


def written(body: Any, error: ErrorCode = ErrorCode.NONE) -> dict[str, Any]:
    """Return the answer to WriteTxnMarkers: one error for every partition."""
    return {
        "markers": [
            {
                "producer_id": marker["producer_id"],
                "topics": [
                    {
                        "name": topic["name"],
                        "partitions": [
                            {"partition_index": each, "error_code": error.number}
                            for each in topic["partition_indexes"]
                        ],
                    }
                    for topic in marker["topics"]
                ],
            }
            for marker in body["markers"]
        ]
    }


def verified(body: Any, error: ErrorCode = ErrorCode.NONE) -> dict[str, Any]:
    """Return the answer to AddPartitionsToTxn: one error for every partition."""
    return {
        "error_code": 0,
        "results_by_transaction": [
            {
                "transactional_id": each["transactional_id"],
                "topic_results": [
                    {
                        "name": topic["name"],
                        "results_by_partition": [
                            {"partition_index": number, "partition_error_code": error.number}
                            for number in topic["partitions"]
                        ],
                    }
                    for topic in each["topics"]
                ],
            }
            for each in body["transactions"]
        ],
    }


async def settle() -> None:
    """Let everything happen that waits for no request."""
    for _ in range(20):
        await asyncio.sleep(0)
