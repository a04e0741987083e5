"""CreateAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

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
    request: "Request[bodies.CreateAclsRequest]", _session: Session
) -> "bodies.CreateAclsResponse":
    """Return SECURITY_DISABLED for each ACL: it would not be enforced."""
    refused: bodies.CreateAclsResponseResult = {
        "error_code": errors.number(ErrorCode.SECURITY_DISABLED),
        "error_message": NO_AUTHORIZER,
    }
    return {"results": [refused for _ in request.body["creations"]]}


API = Api(30, "CreateAcls", range(4), handle, (on_cluster(Operation.ALTER),))
