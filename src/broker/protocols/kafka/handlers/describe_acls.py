"""DescribeAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

There is no authorizer, so there are no ACLs.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies

NO_AUTHORIZER = "this broker has no authorizer: every client that can connect may do everything"


def handle(
    _request: "Request[bodies.DescribeAclsRequest]", _session: Session
) -> "bodies.DescribeAclsResponse":
    """Return SECURITY_DISABLED: an empty list would mean that no one has access."""
    raise RequestError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


API = Api(
    29, "DescribeAcls", range(4), handle, (on_cluster(Operation.DESCRIBE),), refuse_with_message
)
