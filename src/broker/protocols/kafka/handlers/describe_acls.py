"""DescribeAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources."""

from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, Pattern
from broker.core.session import Session
from broker.model.security_limits import ACLS_PER_STEP
from broker.protocols.kafka import acl_fields
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DescribeAclsRequest]", session: Session
) -> "bodies.DescribeAclsResponse":
    """Return the entries that the filter matches, by resource, in steps."""
    authorizer = acl_fields.authorizer(session)
    found: dict[Pattern, bodies.DescribeAclsResponseResource] = {}
    matching = authorizer.find(acl_fields.acl_filter(request.body))
    async for acl in in_steps(matching, ACLS_PER_STEP):
        if acl is None:
            continue
        pattern = acl.pattern
        if pattern not in found:
            found[pattern] = {
                "resource_type": int(pattern.resource_type),
                "resource_name": pattern.name,
                "pattern_type": int(pattern.pattern_type),
                "acls": [],
            }
        found[pattern]["acls"].append({**acl_fields.acl_fields(acl)})
    return {"error_code": 0, "error_message": None, "resources": list(found.values())}


API = Api(
    29,
    "DescribeAcls",
    range(4),
    handle,
    (on_cluster(Operation.DESCRIBE),),
    refuse_with_message,
)
