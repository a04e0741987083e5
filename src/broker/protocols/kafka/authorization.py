"""Authorization of a request, called once before its handler.

There is no authentication and no authorizer yet, so every request is permitted: a broker without
either is bound to loopback (model/config.py). A refusal would be a RequestError, which the API
turns into its response; handlers would check the resources that a request names.
"""

from broker.core.session import Session
from broker.protocols.kafka.api import Api, Body, Request


def authorize(session: Session, api: Api, request: Request[Body]) -> None:
    """Permit everything."""
