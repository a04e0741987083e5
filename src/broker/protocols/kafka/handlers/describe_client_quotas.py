"""DescribeClientQuotas, v0-1. v1 flexible. Nobody has a quota, none can be set yet (KIP-546)."""

from broker.core.session import Session
from broker.protocols.kafka.api import Api, Fields, Request, refuse_with_message


def handle(_request: Request, _session: Session) -> Fields:
    """None, whoever is asked for."""
    return {"error_code": 0, "error_message": None, "entries": []}


API = Api(48, "DescribeClientQuotas", range(2), handle, refuse_with_message)
