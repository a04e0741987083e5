"""What a connection may send before its login.

    AUTH principal=NAME token=PASSWORD         OK principal=NAME authenticated=true
    CONSUME ... principal=NAME auth_token=...  credentials with a command log in, too

The users are those of the mechanism PLAIN of the listener. On a listener without a login, AUTH is
refused, and credentials with a command are ignored.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import PeerError
from broker.protocols.base import Answer, Deferred, Immediate, LoginChange, Reply, WireProtocol
from broker.protocols.cursus.bodies import MAGIC, codec_of
from broker.protocols.cursus.connections import state_of
from broker.protocols.cursus.credentials import log_in
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import BLANKS, Command, encoded, keyword_of, parse
from broker.protocols.cursus.table import FORMS

if TYPE_CHECKING:
    from broker._native.wire.connection import NativeProtocol

_OPEN: Final = frozenset(("HELP", "NEGOTIATE", "PROTOCOL_INFO"))
_AUTH: Final = "AUTH"
_ENVELOPE: Final = 0
_ENVELOPE_HEAD_BYTES: Final = 2


class LoginGate(WireProtocol):
    """Serves the frames of connections that have not logged in."""

    __slots__ = ("_cursus",)
    name = "cursus"

    def __init__(self, cursus: WireProtocol) -> None:
        """Keep the protocol, which serves what is allowed."""
        self._cursus = cursus

    def native_protocol(self, config: Config) -> "NativeProtocol":
        """Return that of the protocol behind the gate."""
        return self._cursus.native_protocol(config)

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one frame."""
        text = _text_of(body)
        if keyword_of(text.strip(BLANKS)[:32]) in _OPEN:
            return self._cursus.handle(operation, version, client_id, body, session)
        return self._log_in(body, text, session)

    async def _log_in(self, body: bytes, text: bytes, session: Session) -> Immediate:
        connection = state_of(session)
        try:
            command = parse(text, FORMS) if text else Command("", {})
            name, password = _credentials_of(command)
            await log_in(session, name, password)
        except RefusedError as error:
            return encoded(error.text(is_structured=connection.has_structured_errors))
        if command.keyword == _AUTH:
            answer = encoded(f"OK principal={name} authenticated=true")
            return Answer(answer, login=LoginChange(needs_login=False))
        reply = self._cursus.handle(0, 0, None, body, session)
        if isinstance(reply, Deferred):
            raise PeerError("a command with credentials cannot be served now")
        served = await reply if isinstance(reply, Awaitable) else reply
        change = LoginChange(needs_login=False)
        if isinstance(served, bytes):
            return Answer(served, login=change)
        return served._replace(login=change)


def _credentials_of(command: Command) -> tuple[str, str]:
    """Return the name and password of a command; raise RefusedError if it has none."""
    token = "token" if command.keyword == _AUTH else "auth_token"
    name, password = command.get("principal"), command.get(token)
    if name and password:
        return name, password
    if command.keyword == _AUTH:
        raise RefusedError("invalid_auth", command=_AUTH)
    raise RefusedError("authentication_required", command=command.keyword or "BATCH")


def _text_of(body: bytes) -> bytes:
    """Return the command of a frame; empty for a batch, and for what is compressed."""
    if body[:1] == bytes((_ENVELOPE,)) and len(body) >= _ENVELOPE_HEAD_BYTES:
        size = int.from_bytes(body[:_ENVELOPE_HEAD_BYTES])
        body = body[_ENVELOPE_HEAD_BYTES + size :]
    if body.startswith(MAGIC) or codec_of(body) is not None:
        return b""
    return body
