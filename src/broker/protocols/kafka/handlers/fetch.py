"""Fetch, v0-18: read whole batches, or wait for data.

v0-3 return message sets (old_fetch.py): v1 throttle time, v2 messages of magic 1, v3 a limit over
all partitions (KIP-74). v4 batches of magic 2, isolation level; v5 log start offset; v7 sessions
(KIP-227); v9 leader epochs (KIP-320); v10 zstd (KIP-110); v11 rack, followers serve consumers, too,
up to the high watermark that they know, and leaders name the replica in sync in the rack of the
consumer, if `replica.selector.class` says so (KIP-392); v12 flexible,
diverging epochs (KIP-595); v13 topic ids; v14 tiered storage; v15 replica state; v16 node
endpoints; v17 and v18 are for followers only.

The native path (src/_native/protocols/kafka/fetch.pyx) serves most requests, and fetch sessions.
This handler serves every request without sessions, and is its specification: a full fetch is
answered with session id 0, which is Kafka's "no session", and an incremental one with
FETCH_SESSION_ID_NOT_FOUND, after which the client sends a full fetch.

A partition is checked in this order, and the first error is its answer: the topic, the partition,
the client's leader epoch, truncated data that it has read, the offset, the records. A request with
an error, or whose client must truncate, is answered at once; others wait for `min_bytes`.
"""

from asyncio import get_running_loop
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.cluster_view import log_at_epoch
from broker.core.logs.partition import check_epoch
from broker.core.scheduling.eager import run_to_first_wait
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import replica_of
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import (
    FETCH_PARTITIONS_PER_STEP,
    FETCH_WAIT_MS_MAX,
    NATIVE_FETCH_PARTITIONS_MAX,
    PYTHON_FETCH_BYTES_MAX,
)
from broker.protocols.kafka import errors, old_fetch
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.current_leaders import CurrentLeaders
from broker.protocols.kafka.fetch_partition import read_partition
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.throttling import fetch_bytes_max

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.logs.log import Log

_READ_COMMITTED = 1
_MAGIC_2_SINCE = 4
_ERRORS_SINCE = 7
_ZSTD_SINCE = 10
_FOLLOWERS_SINCE = 11
_TOPIC_IDS_SINCE = 13
_REPLICA_STATE_SINCE = 15
_LEADERS_SINCE = 16
_OF_LEADERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@run_to_first_wait
async def handle(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse":
    """Refuse what is not served, else read."""
    body = request.body
    if body["session_epoch"] > 0:
        raise RequestError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    count = sum(len(each["partitions"]) for each in body["topics"])
    if count > NATIVE_FETCH_PARTITIONS_MAX:
        raise _too_many(request, count)
    if _is_follower(request):
        access.check_cluster(session, Operation.CLUSTER_ACTION)
        return {"responses": [_not_a_follower(each) for each in body["topics"]]}
    fetch = old_fetch.fetch if request.version < _MAGIC_2_SINCE else _fetch
    return await fetch(request, session)


async def _fetch(
    request: "Request[bodies.FetchRequest]", session: Session
) -> "bodies.FetchResponse":
    """Read; again whenever a partition grows, until it is enough or `max_wait_ms` has passed.

    It ends early if other requests need its memory.
    """
    wait_ms = min(request.body["max_wait_ms"], FETCH_WAIT_MS_MAX)
    loop = get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while True:
        reading = _Reading(request, session)
        partitions = reading.each()
        async for _ in in_steps(partitions, FETCH_PARTITIONS_PER_STEP):
            pass
        seconds_left = deadline - loop.time()
        if (
            reading.is_enough
            or seconds_left <= 0
            or not await session.broker.log_waiters.wait(reading.logs, seconds_left, request.share)
        ):
            endpoints: list[bodies.FetchResponseNodeEndpoint] = [
                {**each} for each in reading.leaders.endpoints()
            ]
            return {"responses": reading.responses, "node_endpoints": endpoints}


# ---- what is not served --------------------------------------------------------------------------


def _too_many(request: "Request[bodies.FetchRequest]", count: int) -> RequestError | PeerError:
    text = f"a fetch of {count} partitions, {NATIVE_FETCH_PARTITIONS_MAX} are allowed"
    if request.version < _ERRORS_SINCE:
        return PeerError(text)
    return RequestError(ErrorCode.INVALID_REQUEST, text)


def _is_follower(request: "Request[bodies.FetchRequest]") -> bool:
    if request.version >= _REPLICA_STATE_SINCE:
        return bool(request.body["replica_state"]["replica_id"] >= 0)
    return bool(request.body["replica_id"] >= 0)


def _not_a_follower(wanted: "bodies.FetchRequestTopic") -> "bodies.FetchResponseResponse":
    """Refuse a fetch of a follower: there are none, and it would read above the high watermark."""
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    partitions = [_refused(each["partition"], code) for each in wanted["partitions"]]
    return {"topic": wanted["topic"], "topic_id": wanted["topic_id"], "partitions": partitions}


def _refused(partition: int, code: ErrorCode) -> "bodies.FetchResponsePartition":
    return {
        "partition_index": partition,
        "error_code": errors.number(code),
        "high_watermark": -1,
        "aborted_transactions": None,
        "records": b"",
    }


# ---- one pass over the partitions ----------------------------------------------------------------


class _Reading:
    """One pass over the request's partitions."""

    __slots__ = (
        "_bytes_left",
        "_bytes_min",
        "_bytes_read",
        "_is_final",
        "_rack",
        "_racks",
        "_request",
        "_session",
        "leaders",
        "logs",
        "responses",
    )

    def __init__(self, request: "Request[bodies.FetchRequest]", session: Session) -> None:
        """Begin without data."""
        self._request = request
        self._session = session
        fetch_max = session.broker.config.integer("fetch.max.bytes")
        quota_max = fetch_bytes_max(session)
        self._bytes_left = min(
            request.body["max_bytes"], fetch_max, PYTHON_FETCH_BYTES_MAX, quota_max
        )
        # From half of the limit on, the next batch may not fit: more would never come.
        self._bytes_min = min(request.body["min_bytes"], PYTHON_FETCH_BYTES_MAX // 2, quota_max)
        self._bytes_read = 0
        self._rack = request.body["rack_id"].encode()
        self._racks = session.broker.cluster.reader_racks if self._rack else {}
        self._is_final = False  # an error or a diverging epoch: respond without waiting
        self.leaders = CurrentLeaders(session)
        self.logs: list[Log] = []
        self.responses: list[bodies.FetchResponseResponse] = []

    @property
    def is_enough(self) -> bool:
        """Whether the fetch can be answered without waiting."""
        return self._is_final or not self.logs or self._bytes_read >= self._bytes_min

    def each(self) -> Iterator[None]:
        """Read every partition in request order, one per step."""
        for wanted in self._request.body["topics"]:
            partitions: list[bodies.FetchResponsePartition] = []
            self.responses.append(
                {
                    "topic": wanted["topic"],
                    "topic_id": wanted["topic_id"],
                    "partitions": partitions,
                }
            )
            for one in wanted["partitions"]:
                partitions.append(self._partition(wanted, one))
                yield

    def _partition(
        self, topic: "bodies.FetchRequestTopic", wanted: "bodies.FetchRequestPartition"
    ) -> "bodies.FetchResponsePartition":
        """Read within the limits, but at least one batch of the first partition that has data."""
        version = self._request.version
        log: Log | None = None
        try:
            if version >= _TOPIC_IDS_SINCE:
                found = access.topic_of_id(self._session, Operation.READ, topic["topic_id"])
            else:
                found = access.topic_named(self._session, Operation.READ, topic["topic"])
            log = self._log(found, wanted["partition"], wanted["current_leader_epoch"])
            self.logs.append(log)
            nearest = self._nearest(log, wanted["fetch_offset"])
            fields = read_partition(
                log,
                wanted,
                size_max=0
                if nearest is not None
                else max(0, min(wanted["partition_max_bytes"], self._bytes_left)),
                at_least_one=not self._bytes_read and nearest is None,
                is_committed=self._request.body["isolation_level"] == _READ_COMMITTED,
                knows_zstd=version >= _ZSTD_SINCE,
            )
        except RequestError as error:
            self._is_final = True
            counters = self._session.broker.metrics.counters if log is None else log
            counters.failed_reads += 1
            return self._answer_to(error.code, topic, wanted["partition"])
        if nearest is not None:
            fields["preferred_read_replica"] = nearest
        # (Only the native path waits for a log that is followed.)
        self._is_final |= "diverging_epoch" in fields or nearest is not None or log.is_follower
        size = len(fields["records"] or b"")
        self._bytes_left -= size
        self._bytes_read += size
        return fields

    def _log(self, topic: Topic, partition: int, epoch: int) -> "Log":
        if self._request.version < _FOLLOWERS_SINCE or partition not in topic.followed:
            return log_at_epoch(self._session.broker.cluster, topic, partition, epoch)
        log = replica_of(topic, partition)
        check_epoch(log.known_epoch, epoch)
        return log

    def _nearest(self, log: "Log", offset: int) -> int | None:
        """Return which other broker the consumer should read a partition from, if any."""
        if not self._racks:
            return None
        found = log.nearest_replica(self._rack, self._racks, offset)
        return found if found >= 0 else None

    def _answer_to(
        self, code: ErrorCode, topic: "bodies.FetchRequestTopic", partition: int
    ) -> "bodies.FetchResponsePartition":
        """Return an error; a client that has asked the wrong broker gets the leader with it."""
        refused = _refused(partition, code)
        if code in _OF_LEADERS and self._request.version >= _LEADERS_SINCE:
            leader = self.leaders.of(topic["topic"], topic["topic_id"], partition)
            if leader is not None:
                refused["current_leader"] = {**leader}
        return refused


API = Api(
    1,
    "Fetch",
    range(19),
    handle,
    (
        *on_each(Operation.READ, ResourceType.TOPIC),
        *on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
