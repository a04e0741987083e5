"""IncrementalAlterConfigs, v0-1. v1 flexible (KIP-339).

Each key is set, deleted (reset to the value that it overrides), appended to or subtracted from; the
last two are for lists. Keys that are not named are unchanged.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.own_config import Alteration, AlterOp, ConfigChange, OwnConfig
from broker.protocols.kafka.alterations import alter, check_values
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_OPS = (AlterOp.SET, AlterOp.DELETE, AlterOp.APPEND, AlterOp.SUBTRACT)  # by Kafka's number


async def handle(
    request: "Request[bodies.IncrementalAlterConfigsRequest]", session: Session
) -> "bodies.IncrementalAlterConfigsResponse":
    """Alter the keys of each resource."""
    return {
        "responses": await alter(
            session,
            request.body["resources"],
            _alteration,
            validates_only=request.body["validate_only"],
        )
    }


def _alteration(resource: "bodies.IncrementalAlterConfigsRequestResource") -> ConfigChange:
    configs = resource["configs"]
    ops = [_op(each["config_operation"]) for each in configs]
    check_values([each for each, op in zip(configs, ops, strict=True) if op != AlterOp.DELETE])
    alterations = [
        Alteration(each["name"], op, each["value"] or "")
        for each, op in zip(configs, ops, strict=True)
    ]

    def change(now: OwnConfig) -> dict[str, str]:
        return now.altered(alterations)

    return change


def _op(number: int) -> AlterOp:
    if not 0 <= number < len(_OPS):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"unknown operation {number} on a key")
    return _OPS[number]


API = Api(
    44,
    "IncrementalAlterConfigs",
    range(2),
    handle,
    on_each(Operation.ALTER_CONFIGS, ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.GROUP),
)
