"""ListConfigResources, v0-1. v1 resource types (KIP-1142); v0 lists client metrics only: none.

The resources are those of DescribeConfigs: every topic, this broker and its loggers, and the groups
that have their own configuration.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_parts
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.configs import Resource
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies

_TYPES_SINCE = 1


async def handle(
    request: "Request[bodies.ListConfigResourcesRequest]", session: Session
) -> "bodies.ListConfigResourcesResponse":
    """List the resources of the requested types, or of all types; in steps.

    A topic that is deleted between two of them is left out.
    """
    if request.version < _TYPES_SINCE:
        return {"error_code": 0, "config_resources": []}
    wanted = dict.fromkeys(request.body["resource_types"] or _NAMES)
    if not wanted.keys() <= _NAMES.keys():
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    rows: Iterator[bodies.ListConfigResourcesResponseConfigResource] = (
        {"resource_name": name, "resource_type": int(resource_type)}
        for resource_type in wanted
        for name in _NAMES[resource_type](session)
    )
    found: list[bodies.ListConfigResourcesResponseConfigResource] = []
    async for part in in_parts(rows, NAMES_READ_PER_STEP):
        found += part
    return {"error_code": 0, "config_resources": found}


_NAMES: Mapping[int, Callable[[Session], Iterable[str]]] = MappingProxyType(
    {
        Resource.TOPIC: lambda session: (topic.name for topic in session.broker.topics),
        Resource.BROKER: lambda session: [str(session.broker.node_id)],
        Resource.BROKER_LOGGER: lambda session: [str(session.broker.node_id)],
        Resource.CLIENT_METRICS: lambda _session: [],
        Resource.GROUP: lambda session: list(session.broker.group_configs.names),
    }
)
API = Api(74, "ListConfigResources", range(2), handle, (on_cluster(Operation.DESCRIBE_CONFIGS),))
