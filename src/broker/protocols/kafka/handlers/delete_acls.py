"""DeleteAcls, v0-3. v1 pattern type; v2 flexible; v3 users as resources.

All filters of a request are applied to the entries before it, so that the answers to several may
name the same entry.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security import acl_changes
from broker.core.security.acls import Acl, Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.security_limits import ACLS_PER_STEP
from broker.protocols.kafka import acl_fields
from broker.protocols.kafka.api import Api, Request, outcome, unique
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
        found = await _matching(authorizer, wanted)
        doomed = await unique(acl for acls in found for acl in acls)
        detail = acl_fields.detail_of("delete", doomed)
        access.check_cluster(session, Operation.ALTER, detail=detail)
        await acl_changes.delete(session.broker.metadata, doomed)
    except RequestError as error:
        return {"filter_results": [{**outcome(error), "matching_acls": []}] * len(wanted)}
    results: list[bodies.DeleteAclsResponseFilterResult] = [
        {**outcome(None), "matching_acls": []} async for _ in in_steps(wanted, ACLS_PER_STEP)
    ]
    both = zip(results, found, strict=True)
    matches = ((result["matching_acls"], acl) for result, acls in both for acl in acls)
    async for answers, acl in in_steps(matches, ACLS_PER_STEP):
        answers.append(_deleted(acl))
    return {"filter_results": results}


async def _matching(
    authorizer: "Authorizer", wanted: "Iterable[bodies.DeleteAclsRequestFilter]"
) -> list[list[Acl]]:
    """Return the entries that each filter matches."""
    found: list[list[Acl]] = []

    def compared() -> Iterator[Acl | None]:
        for each in wanted:
            found.append([])
            yield None  # a filter that is compared with nothing is read, too
            yield from authorizer.find(acl_fields.acl_filter(each))

    async for acl in in_steps(compared(), ACLS_PER_STEP):
        if acl is not None:
            found[-1].append(acl)
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
