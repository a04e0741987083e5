"""Authorization of a request before its handler: what its API needs whatever the request names."""

from broker.core import access
from broker.core.session import Session
from broker.protocols.kafka.api import Api, Body, Request


def authorize(session: Session, api: Api, request: Request[Body]) -> None:
    """Raise RequestError unless the client may make this request at all.

    The error is that of the first need that is not met. What a request needs for each of the
    resources that it names is checked by its handler.
    """
    if session.broker.security.authorizer is None:
        return
    access.begin(session, "kafka", api.name)
    access.check_needs(session, api.needs, request.body)
