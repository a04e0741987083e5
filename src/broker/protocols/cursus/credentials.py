"""Credentials of a client: a principal and a token, which are the name and password of a user.

The users are those of the mechanism PLAIN of the listener.
"""

from broker.core import authentication
from broker.core.security.sasl import plain
from broker.core.session import Session
from broker.protocols.cursus.errors import RefusedError


async def log_in(session: Session, name: str, password: str) -> None:
    """Let a connection act for a user; raise RefusedError if the password is wrong."""
    login = session.login
    if login is None or session.broker.security.logins is None:
        raise _failed("there is no authentication on this listener")
    if plain.NAME not in login.rules.mechanisms:
        raise _failed("the listener does not offer PLAIN (sasl.enabled.mechanisms)")
    if await authentication.with_password(session, "cursus", name, password) is not None:
        raise _failed()


def _failed(detail: str | None = None) -> RefusedError:
    return RefusedError("authentication_failed", mechanism=plain.NAME, detail=detail)
