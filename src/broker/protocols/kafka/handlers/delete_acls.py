"""DeleteAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

All filters of a request are applied to the entries before it, so that the answers to several may
name the same entry.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_parts
from broker.core.security import acl_changes
from broker.core.security.acls import Acl, Filter, Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.security_limits import ACLS_PER_STEP
from broker.protocols.kafka import acl_fields
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.security.authorizer import Authorizer


async def handle(
    request: "Request[bodies.DeleteAclsRequest]", session: Session
) -> "bodies.DeleteAclsResponse":
    """Delete what the filters match."""
    wanted = request.body["filters"]
    try:
        authorizer = acl_fields.authorizer(session)
        if not access.may_cluster(session, Operation.ALTER):
            access.check_cluster(session, Operation.ALTER)
        found = [await _matching(authorizer, acl_fields.acl_filter(each)) for each in wanted]
        doomed = dict.fromkeys(acl for acls in found for acl in acls)
        detail = "; ".join(f"delete {acl}" for acl in doomed)
        access.check_cluster(session, Operation.ALTER, detail=detail)
        await acl_changes.delete(session.broker.metadata, doomed)
    except RequestError as error:
        return {"filter_results": [{**outcome(error), "matching_acls": []} for _ in wanted]}
    return {
        "filter_results": [
            {**outcome(None), "matching_acls": [_deleted(acl) for acl in acls]} for acls in found
        ]
    }


async def _matching(authorizer: "Authorizer", wanted: Filter) -> list[Acl]:
    found: list[Acl] = []
    async for part in in_parts(authorizer.find(wanted), ACLS_PER_STEP):
        found += [acl for acl in part if acl is not None]
    return found


def _deleted(acl: Acl) -> "bodies.DeleteAclsResponseMatchingAcl":
    pattern = acl.pattern
    return {
        **outcome(None),
        "resource_type": int(pattern.resource_type),
        "resource_name": pattern.name,
        "pattern_type": int(pattern.pattern_type),
        **acl_fields.acl_fields(acl),
    }


API = Api(31, "DeleteAcls", range(4), handle, on_each(Operation.ALTER, ResourceType.CLUSTER))
