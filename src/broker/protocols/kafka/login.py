"""The messages of a SASL mechanism, and what follows from them."""

from broker.core import authentication
from broker.core.security.login import LoggedIn
from broker.core.security.sasl.outcome import Challenge, Refused
from broker.core.session import Session


async def take_message(session: Session, message: bytes) -> Challenge | LoggedIn | Refused:
    """Take a message of the chosen mechanism; a refusal is held back as the settings say."""
    login, broker = session.login, session.broker
    logins = broker.security.logins
    assert login is not None
    assert logins is not None
    step = login.respond(message, broker.clock.wall_ms())
    outcome = await logins.work.outcome(step, session.client_host)
    concluded = login.conclude(outcome, broker.clock.wall_ms())
    if isinstance(concluded, LoggedIn) and not authentication.succeeded(
        session, "kafka", login.mechanism, concluded.principal
    ):
        concluded = login.fail("the audit cannot record it")
    if isinstance(concluded, Refused):
        await hold_back(session, concluded)
    return concluded


async def hold_back(session: Session, refused: Refused) -> None:
    """Log that a login has failed, and wait as long as its answer is held back."""
    assert session.login is not None
    await authentication.failed(session, "kafka", session.login.mechanism, refused)
