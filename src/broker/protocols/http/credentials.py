"""Basic authentication (RFC 7617), for tools that read pages and know no SASL.

    Authorization: Basic <base64 of NAME:PASSWORD>

The users are those of the mechanism PLAIN of the listener, if it offers that. Elsewhere the field
is ignored.
"""

from base64 import b64decode
from typing import Final

from broker.core import authentication
from broker.core.security.sasl import plain
from broker.core.session import Session

_SCHEME: Final = "basic"


def is_asked(session: Session) -> bool:
    """Return whether a client must log in before it is shown all pages."""
    return session.login is not None and not session.is_identified


def is_offered(session: Session) -> bool:
    """Return whether a client can log in by this field."""
    return session.login is not None and plain.NAME in session.login.rules.mechanisms


def credentials_of(field: str) -> tuple[str, str] | None:
    """Return the name and password of the field Authorization; None for none of this scheme."""
    scheme, _, token = field.partition(" ")
    if scheme.lower() != _SCHEME:
        return None
    try:
        name, colon, password = b64decode(token.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (name, password) if colon else None


async def log_in(session: Session, credentials: tuple[str, str]) -> bool:
    """Let a connection act for a user; return False if the password is wrong."""
    return await authentication.with_password(session, "http", *credentials) is None
