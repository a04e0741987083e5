"""AlterConfigs, v0-2. v1 throttle time; v2 flexible. Deprecated for IncrementalAlterConfigs.

The keys of a request replace the resource's own configuration: a key that is not named is reset to
the value that it overrides (KIP-133), so tools read all keys, change one and write all. As in Kafka
loggers cannot be altered with this API: naming one level would reset all others.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.own_config import ConfigChange, OwnConfig
from broker.protocols.kafka.alterations import alter, check_values
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.configs import Resource
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.AlterConfigsRequest]", session: Session
) -> "bodies.AlterConfigsResponse":
    """Replace the configuration of each resource."""
    return {
        "responses": await alter(
            session,
            request.body["resources"],
            _replacement,
            validates_only=request.body["validate_only"],
            except_for=Resource.BROKER_LOGGER,
        )
    }


def _replacement(resource: "bodies.AlterConfigsRequestResource") -> ConfigChange:
    check_values(resource["configs"])
    own = {each["name"]: each["value"] or "" for each in resource["configs"]}

    def replace(_now: OwnConfig) -> Mapping[str, str]:
        return own

    return replace


API = Api(
    33,
    "AlterConfigs",
    range(3),
    handle,
    on_each(Operation.ALTER_CONFIGS, ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.GROUP),
)
