"""OffsetDelete, v0-0: a group forgets partitions that none of its members reads (KIP-496)."""

from broker.core.groups.commands import DeleteOffsetsRequest, DeleteOffsetsResponse
from broker.core.lookup import check_partition, topic_by_name
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Later, Request, then


def handle(request: Request, session: Session) -> Fields | Later:
    """Ask for what exists; the rest is answered here."""
    wanted: dict[str, dict[int, ErrorCode]] = {}
    for topic in request.body["topics"]:
        errors_of_topic = wanted.setdefault(topic["name"], {})
        for each in topic["partitions"]:
            partition = each["partition_index"]
            errors_of_topic[partition] = _existence_error(session, topic["name"], partition)
    existing = {
        name: tuple(each for each, code in partitions.items() if code is ErrorCode.NONE)
        for name, partitions in wanted.items()
    }
    deleted = session.broker.groups.delete_offsets(
        DeleteOffsetsRequest(request.body["group_id"], existing)
    )
    return then(deleted, lambda response: _fields(response, wanted))


def _existence_error(session: Session, topic: str, partition: int) -> ErrorCode:
    try:
        check_partition(topic_by_name(session.broker.topics, topic), partition)
    except RequestError:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _fields(response: DeleteOffsetsResponse, wanted: dict[str, dict[int, ErrorCode]]) -> Fields:
    if response.error is not ErrorCode.NONE:
        return {"error_code": errors.number(response.error), "topics": []}
    return {
        "error_code": 0,
        "topics": [
            {
                "name": name,
                "partitions": [
                    _partition(partition, code, response.topics[name])
                    for partition, code in partitions.items()
                ],
            }
            for name, partitions in wanted.items()
        ],
    }


def _partition(partition: int, existence: ErrorCode, of_topic: ErrorCode) -> Fields:
    code = of_topic if existence is ErrorCode.NONE else existence
    return {"partition_index": partition, "error_code": errors.number(code)}


API = Api(47, "OffsetDelete", range(1), handle)
