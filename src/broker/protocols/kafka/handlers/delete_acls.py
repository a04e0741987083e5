"""DeleteAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

There is no authorizer, so there are no ACLs.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.handlers.describe_acls import NO_AUTHORIZER
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies


def handle(
    request: "Request[bodies.DeleteAclsRequest]", _session: Session
) -> "bodies.DeleteAclsResponse":
    """Return SECURITY_DISABLED for each filter."""
    refused: bodies.DeleteAclsResponseFilterResult = {
        "error_code": errors.number(ErrorCode.SECURITY_DISABLED),
        "error_message": NO_AUTHORIZER,
        "matching_acls": [],
    }
    return {"filter_results": [refused for _ in request.body["filters"]]}


API = Api(31, "DeleteAcls", range(4), handle, (on_cluster(Operation.ALTER),))
