"""What follows from a login that has succeeded or failed, whichever protocol it came by."""

import asyncio
import logging

from broker.core.security import audit
from broker.core.security.sasl import plain
from broker.core.security.sasl.outcome import Challenge, Done, Refused
from broker.core.session import Session
from broker.model.principal import USER, Principal

_log = logging.getLogger(__name__)


def succeeded(session: Session, protocol: str, mechanism: str, principal: Principal) -> bool:
    """Let a connection act for who has logged in; return False if that may not be.

    The audit may have to have a record of it, and not be able to write one.
    """
    if not _record(session, protocol, mechanism, str(principal), ""):
        return False
    session.principal = principal
    logins = session.broker.security.logins
    if logins is not None:
        logins.failures.forget(session.client_host, principal.name)
    session.broker.metrics.counters.logins.add(session.listener.name, mechanism)
    return True


async def failed(session: Session, protocol: str, mechanism: str, refused: Refused) -> None:
    """Log that a login has failed, and wait as long as its answer is to be held back."""
    assert session.login is not None
    why = f"{refused.reason}: {refused.detail}" if refused.detail else refused.reason
    _record(session, protocol, mechanism, refused.user, why)
    counters = session.broker.metrics.counters
    counters.login_failures.add(session.listener.name, mechanism or "none", refused.reason)
    _log.warning(
        "login failed: peer=%s listener=%s mechanism=%s reason=%s",
        session.client_host,
        session.listener.name,
        mechanism or "none",
        why,
    )
    delay_ms, logins = session.login.rules.failure_delay_ms, session.broker.security.logins
    if logins is not None:
        delay_ms = logins.failures.next_ms(session.client_host, refused.user, delay_ms)
    await asyncio.sleep(delay_ms / 1000)


async def with_password(
    session: Session, protocol: str, name: str, password: str
) -> Refused | None:
    """Let a connection act for a user of PLAIN, which its listener offers; else return why not."""
    login, logins = session.login, session.broker.security.logins
    assert login is not None
    assert logins is not None
    exchange = login.rules.mechanisms[plain.NAME].begin()
    message = f"\0{name}\0{password}".encode("utf-8", "replace")
    step = exchange.respond(message, session.broker.clock.wall_ms())
    outcome = await logins.work.outcome(step, session.client_host)
    assert not isinstance(outcome, Challenge)
    if isinstance(outcome, Done):
        if succeeded(session, protocol, plain.NAME, Principal(USER, outcome.user)):
            return None
        outcome = Refused("the audit cannot record it", user=outcome.user)
    await failed(session, protocol, plain.NAME, outcome)
    return outcome


def _record(session: Session, protocol: str, mechanism: str, user: str, failure: str) -> bool:
    record = session.broker.security.audit
    if record is None:
        return True
    peer = audit.Peer(session.client_host, session.listener.name, protocol)
    return record(audit.Login(peer, user, mechanism, failure))
