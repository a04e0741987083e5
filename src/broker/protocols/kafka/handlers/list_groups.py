"""ListGroups, v0-5. v3 flexible; v4 states (KIP-518); v5 types (KIP-848). Filters ignore case.

While a coordinator partition is being loaded the response is an error, because an incomplete list
would be taken for complete. The list is built in steps, each group as it was in its step.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.listing import GroupListing, ListGroupsRequest
from broker.core.scheduling.steps import in_parts, next_step
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.model.limits import GROUPS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.ListGroupsRequest]", session: Session
) -> "bodies.ListGroupsResponse":
    """List the groups of one coordinator partition after the other."""
    asked = ListGroupsRequest(
        frozenset(state.lower() for state in request.body["states_filter"]),
        frozenset(group_type.lower() for group_type in request.body["types_filter"]),
    )
    is_for_all = access.may_cluster(session, Operation.DESCRIBE)
    groups: list[bodies.ListGroupsResponseGroup] = []
    for number in session.broker.groups.within_reach():
        response = await session.broker.groups.list_groups(number, asked)
        if response.error is not ErrorCode.NONE:
            return {"error_code": errors.number(response.error), "groups": []}
        async for part in in_parts(response.groups, GROUPS_ANSWERED_PER_STEP):
            groups += [
                _fields(each)
                for each in part
                if is_for_all
                or access.may(session, Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
            ]
        await next_step()
    return {"error_code": 0, "groups": groups}


def _fields(listing: GroupListing) -> "bodies.ListGroupsResponseGroup":
    return {
        "group_id": listing.group_id,
        "protocol_type": listing.protocol_type,
        "group_state": listing.state,
        "group_type": listing.group_type,
    }


API = Api(
    16,
    "ListGroups",
    range(6),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.CLUSTER, ResourceType.GROUP),
)
