"""CreateAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

An entry that is there already is created without effect. Entries are in force on this broker when
the response is sent, on others once they have followed the metadata store.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security import acl_changes
from broker.core.security.acls import Acl, Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.security_limits import ACLS_PER_STEP
from broker.protocols.kafka import acl_fields
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.CreateAclsRequest]", session: Session
) -> "bodies.CreateAclsResponse":
    """Create each entry; an invalid one does not affect the others."""
    wanted = request.body["creations"]
    try:
        acl_fields.authorizer(session)
        parsed = [_parsed(each) async for each in in_steps(wanted, ACLS_PER_STEP)]
        acls = [each for each in parsed if isinstance(each, Acl)]
        detail = acl_fields.detail_of("create", acls)
        access.check_cluster(session, Operation.ALTER, detail=detail)
        await acl_changes.create(session.broker.metadata, acls)
    except ValueError:
        return {"results": [{**outcome(_UNKNOWN)}] * len(wanted)}
    except RequestError as error:
        return {"results": [{**outcome(error)}] * len(wanted)}
    results: list[bodies.CreateAclsResponseResult] = [
        {**outcome(each if isinstance(each, RequestError) else None)}
        async for each in in_steps(parsed, ACLS_PER_STEP)
    ]
    return {"results": results}


def _parsed(wanted: "bodies.CreateAclsRequestCreation") -> Acl | RequestError:
    try:
        return acl_fields.new_acl(wanted)
    except RequestError as error:
        return error


_UNKNOWN = RequestError(
    ErrorCode.UNKNOWN_SERVER_ERROR, "a type, pattern, operation or permission is for filters only"
)
API = Api(30, "CreateAcls", range(4), handle, on_each(Operation.ALTER, ResourceType.CLUSTER))
