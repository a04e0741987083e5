"""The health checks: a broker is live when it responds, and ready once all its logs are loaded."""

from broker.core.session import Session
from broker.protocols.http.page import TEXT, UNAVAILABLE, Content
from broker.protocols.http.request import Request


def show_ok(_: Request, __: Session) -> Content:
    """Say that the broker responds, for people."""
    return Content(b"OK", TEXT)


def show_live(_: Request, __: Session) -> Content:
    """Say that the broker responds."""
    return Content(b'{"status":"live"}')


def show_ready(_: Request, session: Session) -> Content:
    """Say whether the broker serves all its partitions."""
    if session.broker.topics.is_loading:
        reason = b'{"status":"not_ready","reason":"logs are loading"}'
        return Content(reason, status=UNAVAILABLE)
    return Content(b'{"status":"ready"}')
