"""DescribeConfigs, v0-4. v1 synonyms and sources; v3 types and documentation; v4 flexible.

A topic's keys are all shown, with their defaults, because tools read, change and write them. The
broker's are read-only: they are given at its start. Nothing has loggers, metrics or group configs.
"""

from broker.core.session import Session
from broker.model.config import ConfigEntry
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request, message
from broker.protocols.kafka.configs import (
    Resource,
    description_fields,
    entry_fields,
    synonym_fields,
)
from broker.protocols.kafka.lookup import topic_by_name


def handle(request: Request, session: Session) -> Fields:
    """Describe each resource once, in the order asked."""
    wanted = {
        (each["resource_type"], each["resource_name"]): each for each in request.body["resources"]
    }
    return {"results": [_result(request, session, each) for each in wanted.values()]}


def _result(request: Request, session: Session, wanted: Fields) -> Fields:
    answer: Fields = {
        "error_code": 0,
        "error_message": None,
        "resource_type": wanted["resource_type"],
        "resource_name": wanted["resource_name"],
        "configs": [],
    }
    try:
        entries = _entries(session, wanted["resource_type"], wanted["resource_name"])
    except RequestError as error:
        answer["error_code"] = errors.number(error.code)
        answer["error_message"] = message(error)
        return answer
    keys = wanted["configuration_keys"]
    is_read_only = wanted["resource_type"] == Resource.BROKER
    answer["configs"] = [
        _config(request, entry, is_read_only=is_read_only)
        for entry in entries
        if not keys or entry.name in keys
    ]
    return answer


def _entries(session: Session, resource_type: int, name: str) -> list[ConfigEntry]:
    broker = session.broker
    if resource_type == Resource.TOPIC:
        return topic_by_name(broker.topics, name).config.describe()
    if resource_type != Resource.BROKER:
        text = f"resource type {resource_type} has no configuration here"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if not name:
        return []  # the cluster's dynamic defaults, of which there are none
    if name != str(broker.node_id):
        text = f"this is broker {broker.node_id}, not {name}"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    return broker.config.describe()


def _config(request: Request, entry: ConfigEntry, *, is_read_only: bool) -> Fields:
    fields = {**entry_fields(entry, is_read_only=is_read_only), **description_fields(entry)}
    if request.body["include_synonyms"]:
        fields["synonyms"] = synonym_fields(entry)
    if request.body["include_documentation"]:
        fields["documentation"] = entry.documentation
    return fields


API = Api(32, "DescribeConfigs", range(5), handle)
