"""Whether a connection may have a request served: asked once for each, before its handler.

There is no authentication and no authorizer yet, so everything may be: a broker without either is
bound to loopback (model/config.py). A refusal is a RequestError, which the API turns into its
response; what a request names inside of it is for its handler to ask about.
"""

from broker.core.session import Session
from broker.protocols.kafka.api import Api, Request


def authorize(session: Session, api: Api, request: Request) -> None:
    """Permit everything."""
