"""OffsetFetch, v0-10. v2 null topics mean all, error for the group; v3 throttle time.

v5 leader epoch (KIP-320); v6 flexible; v7 require_stable (KIP-447); v8 several groups (KIP-709);
v9 member epoch (KIP-848); v10 topic ids. An unknown group, topic or partition has offset -1 and no
error: librdkafka depends on it.
"""

from broker.core.groups.commands import FetchOffsetsRequest, FetchOffsetsResponse
from broker.core.groups.records import CommittedOffset
from broker.core.session import Session
from broker.core.topics import Topics
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request

_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10


async def handle(request: Request, session: Session) -> Fields:
    """Answer for one group, or for each of several."""
    if request.version < _BATCHED_SINCE:
        return await _group(request, session, request.body)
    return {"groups": [await _group(request, session, each) for each in request.body["groups"]]}


async def _group(request: Request, session: Session, wanted: Fields) -> Fields:
    topics = session.broker.topics
    asked = wanted["topics"]
    if asked is not None and request.version >= _TOPIC_IDS_SINCE:
        asked = [{**each, "name": _name_of(topics, each["topic_id"])} for each in asked]
    response = await session.broker.groups.fetch_offsets(
        FetchOffsetsRequest(wanted["group_id"], None if asked is None else _partitions(asked))
    )
    if asked is None:
        asked = [
            {"name": name, "topic_id": _id_of(topics, name), "partition_indexes": list(offsets)}
            for name, offsets in response.topics.items()
        ]
    return {
        "group_id": wanted["group_id"],
        "error_code": errors.number(response.error),
        "topics": [_topic(each, response) for each in asked],
    }


def _partitions(asked: list[Fields]) -> dict[str, tuple[int, ...]]:
    """What the coordinator knows about: names, each once."""
    wanted: dict[str, list[int]] = {}
    for topic in asked:
        if topic["name"] is not None:
            wanted.setdefault(topic["name"], []).extend(topic["partition_indexes"])
    return {name: tuple(partitions) for name, partitions in wanted.items()}


def _topic(asked: Fields, response: FetchOffsetsResponse) -> Fields:
    code = response.error
    if code is ErrorCode.NONE and asked["name"] is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    committed = response.topics.get(asked["name"], {})
    partitions = [
        _partition(partition, committed.get(partition), code)
        for partition in asked["partition_indexes"]
    ]
    return {**asked, "partitions": partitions}


def _partition(partition: int, committed: CommittedOffset | None, code: ErrorCode) -> Fields:
    return {
        "partition_index": partition,
        "committed_offset": -1 if committed is None else committed.offset,
        "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": errors.number(code),
    }


def _name_of(topics: Topics, topic_id: bytes) -> str | None:
    topic = topics.by_id(topic_id)
    return None if topic is None else topic.name


def _id_of(topics: Topics, name: str) -> bytes:
    topic = topics.get(name)
    return bytes(16) if topic is None else topic.topic_id


API = Api(9, "OffsetFetch", range(11), handle)
