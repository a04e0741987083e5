"""Heartbeat, v0-4. v1 throttle time; v3 static members (KIP-345); v4 flexible."""

from typing import TYPE_CHECKING

from broker.core.groups.commands.classic import HeartbeatRequest
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, DeferrableResponse, Request, respond_with
from broker.protocols.kafka.operations import on_group

if TYPE_CHECKING:
    from broker.codec import bodies


def handle(
    request: "Request[bodies.HeartbeatRequest]", session: Session
) -> "DeferrableResponse[bodies.HeartbeatResponse]":
    """Extend a member's session."""
    body = request.body
    command = HeartbeatRequest(
        group_id=body["group_id"],
        member_id=body["member_id"],
        instance_id=body["group_instance_id"],
        generation=body["generation_id"],
    )
    return respond_with(
        session.broker.groups.heartbeat(command), lambda code: {"error_code": errors.number(code)}
    )


API = Api(12, "Heartbeat", range(5), handle, (on_group(Operation.READ),))
