"""What the APIs of delegation tokens share (KIP-48)."""

from collections.abc import Awaitable

from broker.core.security import audit
from broker.core.security.tokens import DelegationToken, Tokens
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.principal import ANONYMOUS


def tokens_of(session: Session) -> Tokens:
    """Return the tokens of the broker; RequestError if this connection may not ask for them.

    A client that has logged in by a token could keep itself alive for ever, and one that has not
    said who it is would own tokens of nobody.
    """
    tokens = session.broker.security.tokens
    if session.principal == ANONYMOUS or (
        session.login is not None and session.login.token_id is not None
    ):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if tokens is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens


async def recorded(
    session: Session, changing: Awaitable[DelegationToken], change: audit.AccountChange
) -> DelegationToken:
    """Change a token and tell the audit, although the client leaves meanwhile; return the token."""

    async def change_and_tell() -> DelegationToken:
        token = await changing
        _record(session, token, change)
        return token

    return await session.broker.appends.run_to_completion(change_and_tell())


def _record(session: Session, token: DelegationToken, change: audit.AccountChange) -> None:
    found = session.broker.security.audit
    if found is not None:
        peer = audit.Peer(session.client_host, session.listener.name, "kafka")
        detail = f"delegation token {token.token_id}"
        found(audit.Account(peer, str(session.principal), str(token.owner), change, detail))
