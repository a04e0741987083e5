"""What AlterConfigs and IncrementalAlterConfigs share: everything but what they make of a key.

A resource is altered whole or not at all, and by itself: one that is refused does not hold up the
others. Only topics can be altered; a broker is given its settings when it starts.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from broker.core.session import Session
from broker.core.topics import ConfigChange
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Fields, Request, message
from broker.protocols.kafka.configs import Resource
from broker.protocols.kafka.lookup import topic_by_name


async def alter(
    request: Request, session: Session, change: Callable[[list[Fields]], ConfigChange]
) -> Fields:
    """Alter each resource as `change` makes it of the resource's keys; the whole response."""
    resources = request.body["resources"]
    count = Counter((each["resource_type"], each["resource_name"]) for each in resources)
    by_name = {(each["resource_type"], each["resource_name"]): each for each in resources}
    responses = []
    for (resource_type, name), resource in by_name.items():
        refusal = None
        try:
            _check_resource(resource, count[resource_type, name])
            topic = topic_by_name(session.broker.topics, name)
            if request.body["validate_only"]:
                session.broker.topics.plan_config(topic, change(resource["configs"]))
            else:
                await session.broker.topics.alter_config(topic, change(resource["configs"]))
        except RequestError as error:
            refusal = error
        responses.append(_response(resource_type, name, refusal))
    return {"responses": responses}


def check_values(configs: Sequence[Fields]) -> None:
    """Refuse keys without a value, which only a deletion may be."""
    missing = [each["name"] for each in configs if each["value"] is None]
    if missing:
        text = f"null is not a value for {', '.join(missing)}"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)


def _check_resource(resource: Fields, times: int) -> None:
    if times > 1:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
    names = [each["name"] for each in resource["configs"]]
    if len(set(names)) < len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names a key twice")
    if resource["resource_type"] == Resource.BROKER:
        text = (
            "the settings of a broker cannot be altered yet while it runs: give them at its start"
        )
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if resource["resource_type"] != Resource.TOPIC:
        text = f"resource type {resource['resource_type']} has no configuration here"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if not resource["resource_name"]:
        text = "there is no configuration of all topics: name one, or alter the broker's"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)


def _response(resource_type: int, name: str, refusal: RequestError | None) -> Fields:
    return {
        "error_code": errors.number(refusal.code) if refusal else 0,
        "error_message": message(refusal) if refusal else None,
        "resource_type": resource_type,
        "resource_name": name,
    }
