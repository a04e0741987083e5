"""DeleteGroups, v0-2. v2 flexible (KIP-229). A group with members stays: NON_EMPTY_GROUP."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, call_in_turns, unique
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DeleteGroupsRequest]", session: Session
) -> "bodies.DeleteGroupsResponse":
    """Delete each group with all its offsets."""
    group_ids = await unique(request.body["groups_names"])

    async def delete(group_id: str) -> ErrorCode:
        try:
            access.check_group(session, Operation.DELETE, group_id)
        except RequestError as error:
            return error.code
        return await session.broker.groups.delete_group(group_id)

    codes = await call_in_turns(delete, group_ids)
    return {
        "results": [
            {"group_id": group_id, "error_code": errors.number(code)}
            for group_id, code in zip(group_ids, codes, strict=True)
        ]
    }


API = Api(42, "DeleteGroups", range(3), handle, on_each(Operation.DELETE, ResourceType.GROUP))
