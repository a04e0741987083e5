"""The common part of AlterConfigs and IncrementalAlterConfigs.

Each resource is altered completely or not at all; an error of one does not affect the others.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP
from broker.model.own_config import ConfigChange
from broker.protocols.kafka import resources
from broker.protocols.kafka.api import outcome
from broker.protocols.kafka.configs import Resource
from broker.protocols.kafka.partitions import named_once

if TYPE_CHECKING:
    from broker.codec import bodies

_ResourceT = TypeVar(
    "_ResourceT",
    "bodies.AlterConfigsRequestResource",
    "bodies.IncrementalAlterConfigsRequestResource",
)

_log = logging.getLogger(__name__)


async def alter(
    session: Session,
    wanted: Sequence[_ResourceT],
    change: Callable[[_ResourceT], ConfigChange],
    *,
    validates_only: bool,
    except_for: Resource | None = None,
) -> "list[bodies.AlterConfigsResponseResponse]":
    """Alter each resource with the change that `change` makes from its keys; return the results."""
    by_name = await named_once(
        ((each["resource_type"], each["resource_name"]), each) for each in wanted
    )
    responses: list[bodies.AlterConfigsResponseResponse] = []
    async for (resource_type, name), named in in_steps(by_name.items(), CONFIGS_DESCRIBED_PER_STEP):
        refusal = None
        try:
            resource = _checked(named)
            if resource_type == except_for:
                text = f"resource type {resource_type} is for IncrementalAlterConfigs only"
                raise RequestError(ErrorCode.INVALID_REQUEST, text)
            kind = resources.kind(resource_type)
            kind.check(session, Operation.ALTER_CONFIGS, name)
            altered = change(_with_effect(resource))
            await kind.alter(session, name, altered, validates_only=validates_only)
        except RequestError as error:
            refusal = error
        responses.append(
            {"resource_type": resource_type, "resource_name": name, **outcome(refusal)}
        )
    return responses


def check_values(configs: "Sequence[bodies.AlterConfigsRequestConfig]") -> None:
    """Raise RequestError for keys without a value, which only a deletion may have."""
    missing = [each["name"] for each in configs if each["value"] is None]
    if missing:
        text = f"null is not a value for {', '.join(missing)}"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)


def _with_effect(resource: _ResourceT) -> _ResourceT:
    """Leave out the keys that have no effect here: of a broker, those that only Kafka has."""
    if resource["resource_type"] != Resource.BROKER:
        return resource
    from broker.model.unused_settings import is_unused  # noqa: PLC0415 - 290 names, rarely needed

    unused = [each["name"] for each in resource["configs"] if is_unused(each["name"])]
    if unused:
        _log.info("broker settings without an effect here: names=%s", ",".join(unused))
    configs = [each for each in resource["configs"] if each["name"] not in unused]
    return {**resource, "configs": configs}


def _checked(resource: _ResourceT | None) -> _ResourceT:
    if resource is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
    names = [each["name"] for each in resource["configs"]]
    if len(set(names)) < len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names a key twice")
    return resource
