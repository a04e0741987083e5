"""A broker that copies partitions, played by a test: it sends the bytes of Fetch to native code."""

from typing import Any

from broker._native.log.partition_log import PartitionLog
from tests.support.native_log import TOPIC_ID
from tests.support.native_wire import FETCH, Client, Fields, Wire, request, response

LEADER = 1
REPLICA = 2
REPLICA_EPOCH = 70
VERSION = 17
WAIT_MS = 600_000  # longer than a test waits


def lead(log: PartitionLog, *, epoch: int = 0, isr: list[int] | None = None) -> None:
    """Let broker 1 lead a partition that broker 2 has a replica of."""
    log.lead(epoch, LEADER, [LEADER, REPLICA], [LEADER, REPLICA] if isr is None else isr)


def wanted(partition: int, offset: int, *, epoch: int = 0, last: int = -1, **more: Any) -> Fields:
    """Return a partition of a request: the epoch that is followed, and that of the last record."""
    return {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last,
        "partition_max_bytes": 1 << 20,
        **more,
    }


class Replica:
    """The replicas of one broker, over one connection and in one session."""

    def __init__(
        self, wire: Wire, broker_id: int = REPLICA, broker_epoch: int = REPLICA_EPOCH
    ) -> None:
        """Connect; the session begins with the first request."""
        self.client: Client = wire.connect()
        self.session_id = 0
        self.session_epoch = 0
        self._state = {"replica_id": broker_id, "replica_epoch": broker_epoch}

    def request(
        self,
        *partitions: Fields,
        topic_id: bytes = TOPIC_ID,
        forgotten: tuple[int, ...] = (),
        **fields: Any,
    ) -> bytes:
        """Return the next request of the session."""
        body = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 10 << 20,
            "replica_state": self._state,
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": [{"topic_id": topic_id, "partitions": list(partitions)}]
            if partitions
            else [],
            "forgotten_topics_data": [{"topic_id": topic_id, "partitions": list(forgotten)}]
            if forgotten
            else [],
            **fields,
        }
        return request(FETCH, VERSION, body, self.session_epoch)

    def send(self, *partitions: Fields, **fields: Any) -> None:
        """Send the next request of the session; it may wait."""
        self.client.send(self.request(*partitions, **fields))
        self.session_epoch += 1

    def answer(self) -> Fields:
        """Return the answer to the request that was sent."""
        return self.take(self.client.frame())

    def take(self, frame: bytes) -> Fields:
        """Return the body of an answer, whose session goes on."""
        body = response(FETCH, VERSION, frame)[1]
        self.session_id = body["session_id"]
        return body

    def ask(self, *partitions: Fields, **fields: Any) -> Fields:
        """Send a request and return its answer."""
        self.send(*partitions, **fields)
        return self.answer()

    @property
    def is_waiting(self) -> bool:
        """Whether the request that was sent is not answered yet."""
        return self.client.frames() == []


def answered(body: Fields) -> dict[int, Fields]:
    """Return the partitions of an answer by their numbers."""
    return {
        each["partition_index"]: each for topic in body["responses"] for each in topic["partitions"]
    }


def errors(body: Fields) -> dict[int, int]:
    """Return the error of each partition of an answer."""
    return {number: each["error_code"] for number, each in answered(body).items()}
