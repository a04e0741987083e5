"""OffsetCommit, v0-10. v1 generation and member, commit timestamp; v2-4 retention time.

v3 throttle time; v5 retention is the broker's (KIP-211); v6 leader epoch (KIP-320); v7 static
members (KIP-345); v8 flexible; v9 member epochs (KIP-848); v10 topic ids. v0 went to ZooKeeper once
and is stored like every other here.
"""

from broker.core.groups.commands import CommitRequest, CommitResponse, OffsetToCommit
from broker.core.lookup import check_partition, topic_by_id, topic_by_name
from broker.core.session import Session
from broker.core.topic import Topic
from broker.model.errors import RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Later, Request, then

_MEMBER_EPOCHS_SINCE = 9
_TOPIC_IDS_SINCE = 10
_BROKERS_RETENTION = -1


def handle(request: Request, session: Session) -> Fields | Later:
    """Commit what belongs to existing partitions; the others get their own error."""
    body = request.body
    answers: list[Fields] = []
    offsets: list[OffsetToCommit] = []
    committed: list[Fields] = []  # the answers to `offsets`
    for topic in body["topics"]:
        partitions = []
        for wanted in topic["partitions"]:
            answer = {"partition_index": wanted["partition_index"], "error_code": 0}
            partitions.append(answer)
            try:
                offsets.append(offset_to_commit(_topic(request, session, topic), wanted))
                committed.append(answer)
            except RequestError as error:
                answer["error_code"] = errors.number(error.code)
        answers.append(
            {"name": topic["name"], "topic_id": topic["topic_id"], "partitions": partitions}
        )
    response = {"topics": answers}
    if not offsets:
        return response
    command = CommitRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        generation=body["generation_id_or_member_epoch"],
        offsets=tuple(offsets),
        retention_ms=_retention(body["retention_time_ms"]),
        knows_epochs=request.version >= _MEMBER_EPOCHS_SINCE,
    )

    def finish(result: CommitResponse) -> Fields:
        for answer, code in zip(committed, result.errors, strict=True):
            answer["error_code"] = errors.number(code)
        return response

    return then(session.broker.groups.commit_offsets(command), finish)


def _retention(retention_ms: int) -> int | None:
    return None if retention_ms == _BROKERS_RETENTION else retention_ms


def _topic(request: Request, session: Session, wanted: Fields) -> Topic:
    if request.version >= _TOPIC_IDS_SINCE:
        return topic_by_id(session.broker.topics, wanted["topic_id"])
    return topic_by_name(session.broker.topics, wanted["name"])


def offset_to_commit(topic: Topic, wanted: Fields) -> OffsetToCommit:
    """What a request says of one partition, which has to exist."""
    check_partition(topic, wanted["partition_index"])
    return OffsetToCommit(
        topic.name,
        wanted["partition_index"],
        wanted["committed_offset"],
        wanted["committed_leader_epoch"],
        wanted["committed_metadata"] or "",
    )


API = Api(8, "OffsetCommit", range(11), handle)
