"""OffsetForLeaderEpoch, v0-4. v1 leader epoch; v2 current leader epoch; v3 replica; v4 flexible.

The end offset of a leader epoch: a consumer compares it with its position, to detect that the log
was truncated below it (KIP-320). For an epoch without records the result is the largest epoch
before it, or -1.
"""

from functools import partial
from typing import TYPE_CHECKING

from broker.core.cluster_view import log_at_epoch
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_name
from broker.model.errors import RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_UNKNOWN = (-1, -1)


async def handle(
    request: "Request[bodies.OffsetForLeaderEpochRequest]", session: Session
) -> "bodies.OffsetForLeaderEpochResponse":
    """Look up each partition."""
    topics = ((topic["topic"], topic["partitions"]) for topic in request.body["topics"])
    return {
        "topics": await answer_partitions(
            topics, partial(_answer, session), lambda name, its: {"topic": name, "partitions": its}
        )
    }


def _answer(
    session: Session, name: str, wanted: "bodies.OffsetForLeaderEpochRequestPartition"
) -> "bodies.OffsetForLeaderEpochResponsePartition":
    code = 0
    epoch, end = _UNKNOWN
    try:
        topic = topic_by_name(session.broker.topics, name)
        cluster, known = session.broker.cluster, wanted["current_leader_epoch"]
        log = log_at_epoch(cluster, topic, wanted["partition"], known)
        epoch, end = log.epoch_end(wanted["leader_epoch"])
    except RequestError as error:
        code = errors.number(error.code)
    return {
        "error_code": code,
        "partition": wanted["partition"],
        "leader_epoch": epoch,
        "end_offset": end,
    }


API = Api(23, "OffsetForLeaderEpoch", range(5), handle)
