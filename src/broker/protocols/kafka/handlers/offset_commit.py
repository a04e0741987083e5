"""OffsetCommit, v0-10. v1 generation and member, commit timestamp; v2-4 retention time.

v3 throttle time; v5 no retention time (KIP-211); v6 leader epoch (KIP-320); v7 static members
(KIP-345); v8 flexible; v9 member epochs (KIP-848); v10 topic ids. v0, which Kafka stored in
ZooKeeper, is stored like the others.
"""

from typing import TYPE_CHECKING, TypeAlias

from broker.core.groups.commands.offsets import CommitRequest, CommitResponse, OffsetToCommit
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.session import Session
from broker.core.topics.lookup import check_partition, topic_by_id, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import RequestError
from broker.model.limits import (
    NAMES_READ_PER_STEP,
    OFFSETS_COMMITTED_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from broker.codec import bodies

    _Row: TypeAlias = tuple[
        bodies.OffsetCommitRequestTopic, bodies.OffsetCommitRequestPartition | None
    ]

_MEMBER_EPOCHS_SINCE = 9
_TOPIC_IDS_SINCE = 10
_BROKERS_RETENTION = -1


def handle(
    request: "Request[bodies.OffsetCommitRequest]", session: Session
) -> "DeferrableResponse[bodies.OffsetCommitResponse] | Awaitable[bodies.OffsetCommitResponse]":
    """Commit offsets of existing partitions; the others get an error each."""
    topics = request.body["topics"]
    most = PARTITIONS_ANSWERED_PER_STEP
    if len(topics) > most or sum(len(topic["partitions"]) for topic in topics) > most:
        return _commit_many(request, session)
    work = _Work(request, session)
    for topic, wanted in _rows(request):
        work.add(topic, wanted)
    if not work.offsets:
        return work.response()
    committed = session.broker.groups.commit_offsets(work.command(work.offsets))
    return respond_with(committed, work.finish)


async def _commit_many(
    request: "Request[bodies.OffsetCommitRequest]", session: Session
) -> "bodies.OffsetCommitResponse":
    """Commit many offsets in steps, each of which commits a part of them.

    A topic that is deleted between two steps is unknown or committed. If a rebalance begins between
    two steps, the offsets before are committed and those after get its error.
    """
    work = _Work(request, session)
    async for topic, wanted in in_steps(_rows(request), PARTITIONS_ANSWERED_PER_STEP):
        work.add(topic, wanted)
    groups = session.broker.groups
    parts = in_parts(work.offsets, OFFSETS_COMMITTED_PER_STEP)
    committing = [groups.commit_offsets(work.command(part)) async for part in parts]
    results = [await each for each in committing]  # they share a disk sync
    codes = (code for result in results for code in result.errors)
    both = zip(work.committed, codes, strict=True)
    async for answer, code in in_steps(both, NAMES_READ_PER_STEP):
        answer["error_code"] = errors.number(code)
    return work.response()


def _rows(
    request: "Request[bodies.OffsetCommitRequest]",
) -> "Iterator[_Row]":
    """Yield each topic alone, then with each of its partitions."""
    for topic in request.body["topics"]:
        yield topic, None
        for wanted in topic["partitions"]:
            yield topic, wanted


class _Work:
    """The offsets to commit, and the response as far as it is known."""

    def __init__(self, request: "Request[bodies.OffsetCommitRequest]", session: Session) -> None:
        self._request = request
        self._session = session
        self._answers: list[bodies.OffsetCommitResponseTopic] = []
        self.offsets: list[OffsetToCommit] = []
        self.committed: list[
            bodies.OffsetCommitResponsePartition
        ] = []  # the response rows of `offsets`

    def add(
        self,
        topic: "bodies.OffsetCommitRequestTopic",
        wanted: "bodies.OffsetCommitRequestPartition | None",
    ) -> None:
        """Add a topic, or a partition of the topic that was added last."""
        if wanted is None:
            self._answers.append(
                {"name": topic["name"], "topic_id": topic["topic_id"], "partitions": []}
            )
            return
        answer: bodies.OffsetCommitResponsePartition = {
            "partition_index": wanted["partition_index"],
            "error_code": 0,
        }
        self._answers[-1]["partitions"].append(answer)
        try:
            found = _topic(self._request, self._session, topic)
            self.offsets.append(offset_to_commit(found, wanted))
            self.committed.append(answer)
        except RequestError as error:
            answer["error_code"] = errors.number(error.code)

    def command(self, offsets: list[OffsetToCommit]) -> CommitRequest:
        """Return the command that commits some of the offsets."""
        body = self._request.body
        return CommitRequest(
            group_id=body["group_id"],
            member_id=body["member_id"],
            instance_id=body["group_instance_id"],
            generation=body["generation_id_or_member_epoch"],
            offsets=tuple(offsets),
            retention_ms=_retention(body["retention_time_ms"]),
            knows_epochs=self._request.version >= _MEMBER_EPOCHS_SINCE,
        )

    def finish(self, result: CommitResponse) -> "bodies.OffsetCommitResponse":
        """Return the response after the commit."""
        for answer, code in zip(self.committed, result.errors, strict=True):
            answer["error_code"] = errors.number(code)
        return self.response()

    def response(self) -> "bodies.OffsetCommitResponse":
        """Return the response as far as it is known."""
        return {"topics": self._answers}


def _retention(retention_ms: int) -> int | None:
    return None if retention_ms == _BROKERS_RETENTION else retention_ms


def _topic(
    request: "Request[bodies.OffsetCommitRequest]",
    session: Session,
    wanted: "bodies.OffsetCommitRequestTopic",
) -> Topic:
    if request.version >= _TOPIC_IDS_SINCE:
        return topic_by_id(session.broker.topics, wanted["topic_id"])
    return topic_by_name(session.broker.topics, wanted["name"])


def offset_to_commit(
    topic: Topic,
    wanted: "bodies.OffsetCommitRequestPartition | bodies.TxnOffsetCommitRequestPartition",
) -> OffsetToCommit:
    """Return the offset of a request for one partition, which must exist."""
    check_partition(topic, wanted["partition_index"])
    return OffsetToCommit(
        topic.name,
        wanted["partition_index"],
        wanted["committed_offset"],
        wanted["committed_leader_epoch"],
        wanted["committed_metadata"] or "",
    )


API = Api(8, "OffsetCommit", range(11), handle)
