"""DescribeCluster, v0-2. v1 endpoint type (KIP-919): brokers; v2 fenced brokers, of which none."""

from typing import TYPE_CHECKING

from broker.core.security.acls import CLUSTER_NAME, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import authorized

if TYPE_CHECKING:
    from broker.codec import bodies

_BROKERS = 1
_CONTROLLERS = 2


def handle(
    request: "Request[bodies.DescribeClusterRequest]", session: Session
) -> "bodies.DescribeClusterResponse":
    """Describe the brokers of the cluster, and which of them is the controller."""
    broker = session.broker
    endpoint_type = request.body["endpoint_type"]
    if endpoint_type == _CONTROLLERS:
        raise RequestError(ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    if endpoint_type != _BROKERS:
        raise RequestError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    return {
        "error_code": 0,
        "error_message": None,
        "endpoint_type": endpoint_type,
        "cluster_id": broker.cluster_id,
        "controller_id": broker.cluster.controller_id,
        "brokers": [
            {
                "broker_id": each.broker_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "is_fenced": False,
            }
            for each in broker.cluster.brokers(*session.reached)
        ],
        "cluster_authorized_operations": authorized(
            session,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            is_asked=request.body["include_cluster_authorized_operations"],
        ),
    }


API = Api(60, "DescribeCluster", range(3), handle, (), refuse_with_message)
