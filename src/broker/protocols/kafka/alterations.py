"""The common part of AlterConfigs and IncrementalAlterConfigs.

Each resource is altered completely or not at all; an error of one does not affect the others.
"""

import logging
from collections.abc import Callable, Sequence

from broker.core.scheduling.steps import in_steps
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP
from broker.model.own_config import ConfigChange
from broker.protocols.kafka import errors, resources
from broker.protocols.kafka.api import Fields, Request, message
from broker.protocols.kafka.configs import Resource
from broker.protocols.kafka.partitions import named_once

_log = logging.getLogger(__name__)


async def alter(
    request: Request,
    session: Session,
    change: Callable[[list[Fields]], ConfigChange],
    *,
    except_for: Resource | None = None,
) -> Fields:
    """Alter each resource with the change that `change` makes from its keys."""
    wanted = await named_once(
        ((each["resource_type"], each["resource_name"]), each) for each in request.body["resources"]
    )
    responses = []
    async for (resource_type, name), named in in_steps(wanted.items(), CONFIGS_DESCRIBED_PER_STEP):
        refusal = None
        try:
            resource = _checked(named)
            if resource_type == except_for:
                text = f"resource type {resource_type} is for IncrementalAlterConfigs only"
                raise RequestError(ErrorCode.INVALID_REQUEST, text)
            kind = resources.kind(resource_type)
            do = kind.plan if request.body["validate_only"] else kind.alter
            await do(session, name, change(_with_effect(resource)))
        except RequestError as error:
            refusal = error
        responses.append(_response(resource_type, name, refusal))
    return {"responses": responses}


def check_values(configs: Sequence[Fields]) -> None:
    """Raise RequestError for keys without a value, which only a deletion may have."""
    missing = [each["name"] for each in configs if each["value"] is None]
    if missing:
        text = f"null is not a value for {', '.join(missing)}"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)


def _with_effect(resource: Fields) -> list[Fields]:
    """Return the keys that have an effect here: for a broker, not those that only Kafka has."""
    configs: list[Fields] = resource["configs"]
    if resource["resource_type"] != Resource.BROKER:
        return configs
    from broker.model.kafka_settings import is_unused  # noqa: PLC0415 - 290 names, rarely needed

    unused = [each["name"] for each in configs if is_unused(each["name"])]
    if unused:
        _log.info("broker settings without an effect here: names=%s", ",".join(unused))
    return [each for each in configs if each["name"] not in unused]


def _checked(resource: Fields | None) -> Fields:
    if resource is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
    names = [each["name"] for each in resource["configs"]]
    if len(set(names)) < len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names a key twice")
    return resource


def _response(resource_type: int, name: str, refusal: RequestError | None) -> Fields:
    return {
        "error_code": errors.number(refusal.code) if refusal else 0,
        "error_message": message(refusal) if refusal else None,
        "resource_type": resource_type,
        "resource_name": name,
    }
