"""Logging in with SASL: the messages of mechanisms, and what follows from them."""

import asyncio
import logging

from broker.core.security import audit
from broker.core.security.login import LoggedIn
from broker.core.security.sasl.outcome import Challenge, Refused
from broker.core.session import Session

_log = logging.getLogger(__name__)


async def take_message(session: Session, message: bytes) -> Challenge | LoggedIn | Refused:
    """Take a message of the chosen mechanism; a refusal is held back as the settings say."""
    login, broker = session.login, session.broker
    logins = broker.security.logins
    assert login is not None
    assert logins is not None
    outcome = await logins.work.outcome(login.respond(message, broker.clock.wall_ms()))
    concluded = login.conclude(outcome, broker.clock.wall_ms())
    if isinstance(concluded, LoggedIn):
        session.principal = concluded.principal
        if not _record(session, str(concluded.principal), ""):
            concluded = login.fail("the audit cannot record it")
    if isinstance(concluded, Refused):
        _record(session, concluded.user, concluded.reason)
        await hold_back(session, concluded.reason)
    return concluded


async def hold_back(session: Session, reason: str) -> None:
    """Log that a login has failed, and wait as long as its answer is held back."""
    assert session.login is not None
    _log.warning(
        "login failed: peer=%s listener=%s mechanism=%s reason=%s",
        session.client_host,
        session.listener.name,
        session.login.mechanism or "none",
        reason,
    )
    await asyncio.sleep(session.login.rules.failure_delay_ms / 1000)


def _record(session: Session, user: str, failure: str) -> bool:
    record = session.broker.security.audit
    if record is None:
        return True
    assert session.login is not None
    peer = audit.Peer(session.client_host, session.listener.name, "kafka")
    return record(audit.Login(peer, user, session.login.mechanism, failure))
