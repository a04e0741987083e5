"""DeleteGroups, v0-2. v2 flexible (KIP-229). A group with members stays: NON_EMPTY_GROUP."""

from broker.core.session import Session
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request


async def handle(request: Request, session: Session) -> Fields:
    """Delete one group after the other, with all its offsets."""
    results = [
        {
            "group_id": group_id,
            "error_code": errors.number(await session.broker.groups.delete_group(group_id)),
        }
        for group_id in dict.fromkeys(request.body["groups_names"])
    ]
    return {"results": results}


API = Api(42, "DeleteGroups", range(3), handle)
