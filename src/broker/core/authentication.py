"""What follows from a login that has succeeded or failed, whichever protocol it came by."""

import asyncio
import logging

from broker.core.security import audit
from broker.core.security.sasl.outcome import Refused
from broker.core.session import Session
from broker.model.principal import Principal

_log = logging.getLogger(__name__)


def succeeded(session: Session, protocol: str, mechanism: str, principal: Principal) -> bool:
    """Let a connection act for who has logged in; return False if that may not be.

    The audit may have to have a record of it, and not be able to write one.
    """
    if not _record(session, protocol, mechanism, str(principal), ""):
        return False
    session.principal = principal
    session.broker.metrics.counters.logins.add(session.listener.name, mechanism)
    return True


async def failed(session: Session, protocol: str, mechanism: str, refused: Refused) -> None:
    """Log that a login has failed, and wait as long as its answer is to be held back."""
    assert session.login is not None
    _record(session, protocol, mechanism, refused.user, refused.reason)
    counters = session.broker.metrics.counters
    counters.login_failures.add(session.listener.name, mechanism or "none", refused.reason)
    _log.warning(
        "login failed: peer=%s listener=%s mechanism=%s reason=%s",
        session.client_host,
        session.listener.name,
        mechanism or "none",
        refused.reason,
    )
    await asyncio.sleep(session.login.rules.failure_delay_ms / 1000)


def _record(session: Session, protocol: str, mechanism: str, user: str, failure: str) -> bool:
    record = session.broker.security.audit
    if record is None:
        return True
    peer = audit.Peer(session.client_host, session.listener.name, protocol)
    return record(audit.Login(peer, user, mechanism, failure))
