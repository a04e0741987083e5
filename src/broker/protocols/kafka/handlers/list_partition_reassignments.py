"""ListPartitionReassignments, v0-0. Partitions are not reassigned (KIP-455)."""

from typing import TYPE_CHECKING

from broker.core.session import Session
from broker.protocols.kafka.api import Api, Request, refuse_with_message

if TYPE_CHECKING:
    from broker.codec import bodies


def handle(
    _request: "Request[bodies.ListPartitionReassignmentsRequest]", _session: Session
) -> "bodies.ListPartitionReassignmentsResponse":
    """Return an empty list, also for partitions that do not exist."""
    return {"error_code": 0, "error_message": None, "topics": []}


API = Api(46, "ListPartitionReassignments", range(1), handle, refuse_with_message)
