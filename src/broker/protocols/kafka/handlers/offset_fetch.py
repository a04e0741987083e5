"""OffsetFetch, v0-10. v2 null topics mean all, error for the group; v3 throttle time.

v5 leader epoch (KIP-320); v6 flexible; v7 require_stable (KIP-447); v8 several groups (KIP-709); v9
member epoch (KIP-848), which classic groups do not check; v10 topic ids. An unknown group, topic or
partition has offset -1 and no error: librdkafka depends on it. A group with an error has no topics
in the response; versions 0 and 1 have no group error, so each partition has it.

The response is built in steps: each offset is as it was in its step.
"""

from typing import TYPE_CHECKING, NamedTuple

from broker.core import access
from broker.core.groups.commands.offsets import FetchOffsetsRequest, FetchOffsetsResponse
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.scheduling.steps import in_parts, in_steps, next_step
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.topics import Topics
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, call_in_turns
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.codec import bodies

_GROUP_ERROR_SINCE = 2
_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10


class _Asked(NamedTuple):
    """A topic whose offsets are requested."""

    name: str | None  # None: there is no topic with this id
    topic_id: bytes
    partitions: list[int]
    refusal: ErrorCode | None = None  # of all its partitions


async def handle(
    request: "Request[bodies.OffsetFetchRequest]", session: Session
) -> "bodies.OffsetFetchResponse":
    """Return the offsets of one group, or of several."""
    if request.version < _BATCHED_SINCE:
        return await _only_group(request, session)
    wanted = request.body["groups"]
    found = await call_in_turns(lambda each: _one_of_many(request, session, each), wanted)
    return {"groups": found}


async def _only_group(
    request: "Request[bodies.OffsetFetchRequest]", session: Session
) -> "bodies.OffsetFetchResponse":
    topics = request.body["topics"]
    wanted: bodies.OffsetFetchRequestGroup = {
        "group_id": request.body["group_id"],
        "member_id": None,
        "member_epoch": -1,
        "topics": None
        if topics is None
        else [
            {"name": each["name"], "partition_indexes": each["partition_indexes"]}
            async for each in in_steps(topics, NAMES_READ_PER_STEP)
        ],
    }
    found = await _group(request, session, wanted)
    return {
        "error_code": found["error_code"],
        "topics": [
            {"name": topic["name"], "partitions": topic["partitions"]}
            async for topic in in_steps(found["topics"], NAMES_READ_PER_STEP)
        ],
    }


async def _one_of_many(
    request: "Request[bodies.OffsetFetchRequest]",
    session: Session,
    wanted: "bodies.OffsetFetchRequestGroup",
) -> "bodies.OffsetFetchResponseGroup":
    await next_step()  # a turn begins several groups
    return await _group(request, session, wanted)


async def _group(
    request: "Request[bodies.OffsetFetchRequest]",
    session: Session,
    wanted: "bodies.OffsetFetchRequestGroup",
) -> "bodies.OffsetFetchResponseGroup":
    asked = await _asked(request, session.broker.topics, wanted["topics"])
    try:
        access.check_group(session, Operation.DESCRIBE, wanted["group_id"])
    except RequestError as error:
        return await _fields(request, session, wanted, asked, FetchOffsetsResponse(error.code))
    if asked is not None:
        per_step = access.per_step(session, NAMES_READ_PER_STEP)
        asked = [_shown(session, each) async for each in in_steps(asked, per_step)]
    response = await session.broker.groups.fetch_offsets(
        FetchOffsetsRequest(
            wanted["group_id"],
            None if asked is None else await _partitions(asked),
            requires_stable=request.body["require_stable"],
            member_id=wanted["member_id"],
            member_epoch=wanted["member_epoch"],
        )
    )
    return await _fields(request, session, wanted, asked, response)


async def _fields(
    request: "Request[bodies.OffsetFetchRequest]",
    session: Session,
    wanted: "bodies.OffsetFetchRequestGroup",
    asked: list[_Asked] | None,
    response: FetchOffsetsResponse,
) -> "bodies.OffsetFetchResponseGroup":
    if response.error is not ErrorCode.NONE and request.version >= _GROUP_ERROR_SINCE:
        asked = []
    elif asked is None:
        asked = [
            _Asked(name, _id_of(session.broker.topics, name), list(offsets))
            async for name, offsets in in_steps(
                response.topics.items(), access.per_step(session, NAMES_READ_PER_STEP)
            )
            if access.may(session, Operation.DESCRIBE, ResourceType.TOPIC, name)
        ]
    return {
        "group_id": wanted["group_id"],
        "error_code": errors.number(response.error),
        "topics": await _topics(asked, response),
    }


def _shown(session: Session, asked: _Asked) -> _Asked:
    """Refuse a topic that the client may not describe."""
    if asked.name is not None:
        try:
            access.check_topic(session, Operation.DESCRIBE, asked.name)
        except RequestError as error:
            return asked._replace(refusal=error.code)
    return asked


async def _asked(
    request: "Request[bodies.OffsetFetchRequest]",
    topics: Topics,
    wanted: "list[bodies.OffsetFetchRequestGroupTopic] | None",
) -> list[_Asked] | None:
    if wanted is None:
        return None
    has_ids = request.version >= _TOPIC_IDS_SINCE
    return [
        _Asked(
            _name_of(topics, each["topic_id"]) if has_ids else each["name"],
            each["topic_id"] if has_ids else NO_ID,
            each["partition_indexes"],
        )
        async for each in in_steps(wanted, NAMES_READ_PER_STEP)
    ]


async def _partitions(asked: list[_Asked]) -> dict[str, tuple[int, ...]]:
    """Return the requested partitions by topic name, each name once."""
    wanted: dict[str, list[int]] = {}
    async for topic in in_steps(asked, NAMES_READ_PER_STEP):
        if topic.name is not None and topic.refusal is None:
            wanted.setdefault(topic.name, []).extend(topic.partitions)
    return {
        name: tuple(partitions)
        async for name, partitions in in_steps(wanted.items(), NAMES_READ_PER_STEP)
    }


async def _topics(
    asked: list[_Asked], response: FetchOffsetsResponse
) -> "list[bodies.OffsetFetchResponseGroupTopic]":
    topics: list[bodies.OffsetFetchResponseGroupTopic] = []
    rows = (row for each in asked for row in _rows(each, response))
    async for part in in_parts(rows, PARTITIONS_ANSWERED_PER_STEP):
        for row in part:
            if isinstance(row, _Asked):
                topics.append({"name": row.name or "", "topic_id": row.topic_id, "partitions": []})
            else:
                topics[-1]["partitions"].append(row)
    return topics


def _rows(
    asked: _Asked, response: FetchOffsetsResponse
) -> "Iterator[_Asked | bodies.OffsetFetchResponseGroupTopicPartition]":
    """Yield the topic, followed by its partitions."""
    code = response.error if asked.refusal is None else asked.refusal
    if code is ErrorCode.NONE and asked.name is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    name = asked.name or ""
    committed = response.topics.get(name, {})
    yield asked
    for partition in asked.partitions:
        if (name, partition) in response.unstable:
            yield _partition(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        else:
            yield _partition(partition, committed.get(partition), code)


def _partition(
    partition: int, committed: CommittedOffset | None, code: ErrorCode
) -> "bodies.OffsetFetchResponseGroupTopicPartition":
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
    return NO_ID if topic is None else topic.topic_id


API = Api(
    9,
    "OffsetFetch",
    range(11),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.GROUP, ResourceType.TOPIC),
)
