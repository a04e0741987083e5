"""Credentials of a client: a principal and a token, which are the name and password of a user.

The users are those of the mechanism PLAIN of the listener.
"""

from typing import Final

from broker.core import authentication
from broker.core.security.sasl import plain
from broker.core.security.sasl.outcome import Challenge, Done, Outcome, Refused
from broker.core.session import Session
from broker.model.principal import USER, Principal
from broker.protocols.cursus.errors import RefusedError

_PROTOCOL: Final = "cursus"


async def log_in(session: Session, name: str, password: str) -> None:
    """Let a connection act for a user; raise RefusedError if the password is wrong."""
    login, logins = session.login, session.broker.security.logins
    if login is None or logins is None:
        raise _failed("there is no authentication on this listener")
    mechanism = login.rules.mechanisms.get(plain.NAME)
    if mechanism is None:
        raise _failed("the listener does not offer PLAIN (sasl.enabled.mechanisms)")
    message = f"\0{name}\0{password}".encode("utf-8", "replace")
    step = mechanism.begin().respond(message, session.broker.clock.wall_ms())
    refused = _refused(session, await logins.work.outcome(step))
    if refused is not None:
        await authentication.failed(session, _PROTOCOL, plain.NAME, refused)
        raise _failed()


def _refused(session: Session, outcome: Outcome) -> Refused | None:
    assert not isinstance(outcome, Challenge)
    if not isinstance(outcome, Done):
        return outcome
    principal = Principal(USER, outcome.user)
    if authentication.succeeded(session, _PROTOCOL, plain.NAME, principal):
        return None
    return Refused("the audit cannot record it", user=outcome.user)


def _failed(detail: str | None = None) -> RefusedError:
    return RefusedError("authentication_failed", mechanism=plain.NAME, detail=detail)
