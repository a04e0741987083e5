"""Records of a broker for partitions that others lead."""

import asyncio
from typing import Any

import pytest

from broker.codec import Fields
from broker.core.remote_appends import RemoteAppends
from broker.model.errors import ErrorCode, PeerError, RequestError, Unreachable


class Peers:
    """Another broker, which answers with a code or not at all."""

    def __init__(self, answer: int | Exception) -> None:
        """Keep the answer."""
        self.answer = answer
        self.sent: list[tuple[int, str, Fields]] = []

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        """Take a request."""
        assert timeout_seconds > 0
        self.sent.append((broker_id, api, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        partition = {"index": 1, "error_code": self.answer, "error_message": None}
        return versions[0], {"responses": [{"partition_responses": [partition]}]}


def append(peers: Peers, leader: int | None) -> None:
    """Append a batch to a partition of that leader."""
    appends = RemoteAppends(lambda _topic, _partition: leader, peers)
    asyncio.run(appends.append("__audit", 1, b"batch"))


def test_a_batch_goes_to_the_leader_and_waits_for_all_replicas() -> None:
    peers = Peers(0)

    append(peers, leader=7)

    [(broker_id, api, body)] = peers.sent
    assert (broker_id, api, body["acks"]) == (7, "Produce", -1)
    partition = {"index": 1, "records": b"batch"}
    assert body["topic_data"] == [{"name": "__audit", "partition_data": [partition]}]


@pytest.mark.parametrize("leader", [None, -1])
def test_without_a_leader_nothing_is_sent(leader: int | None) -> None:
    peers = Peers(0)

    with pytest.raises(RequestError) as caught:
        append(peers, leader)

    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert peers.sent == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (17, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (29, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (Unreachable("gone"), ErrorCode.NETWORK_EXCEPTION),
        (PeerError("another answer"), ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_what_the_leader_refuses_is_an_error(answer: int | Exception, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as caught:
        append(Peers(answer), leader=7)

    assert caught.value.code is code
