"""The client's side of SASL: PLAIN and SCRAM, for commands and for brokers at other brokers.

    SaslHandshake     the mechanism
    SaslAuthenticate  Login.first(), then Login.answer(each message of the broker) until it is None

A server with SCRAM must prove that it knows the user's keys; one that does not, or that asks for
more iterations than any client should compute, is refused.
"""

import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker.model.errors import PeerError
from broker.model.sasl_limits import CLIENT_ITERATIONS_MAX
from broker.model.scram import (
    MECHANISMS,
    ScramMechanism,
    client_key,
    credential_of,
    escaped,
    proof,
    salted_password,
    server_signature,
)

PLAIN: Final = "PLAIN"
CLIENT_MECHANISMS: Final = (PLAIN, *MECHANISMS)
_HEADER: Final = "n,,"
_NONCE_BYTES: Final = 24


class Credentials(NamedTuple):
    """Who a client is, and how it says so."""

    mechanism: str
    user: str
    password: str
    is_token: bool = False  # the user is the id of a delegation token, the password its HMAC

    def __repr__(self) -> str:
        """Return no password."""
        return f"Credentials({self.mechanism!r}, {self.user!r})"


class Login(Protocol):
    """One login."""

    def first(self) -> bytes:
        """Return the first message."""

    def answer(self, message: bytes, /) -> bytes | None:
        """Return the answer to a message of the broker; None: the login is over.

        Raises:
            PeerError: the broker does not follow the mechanism, or does not know the password.
        """


def _random_nonce() -> str:
    return os.urandom(_NONCE_BYTES).hex()


def login(credentials: Credentials, nonce: Callable[[], str] = _random_nonce) -> Login:
    """Begin a login; `credentials` has one of CLIENT_MECHANISMS."""
    if credentials.mechanism == PLAIN:
        return _PlainLogin(credentials)
    return _ScramLogin(MECHANISMS[credentials.mechanism], credentials, nonce())


class _PlainLogin:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def first(self) -> bytes:
        return f"\0{self._credentials.user}\0{self._credentials.password}".encode()

    def answer(self, message: bytes) -> bytes | None:  # noqa: ARG002 (see Login)
        return None


class _ScramLogin:
    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = credentials.password
        self._nonce = nonce
        self._bare = f"n={escaped(credentials.user)},r={nonce}"
        if credentials.is_token:
            self._bare += ",tokenauth=true"
        self._signature = b""  # that the server must send

    def first(self) -> bytes:
        return (_HEADER + self._bare).encode()

    def answer(self, message: bytes) -> bytes | None:
        if self._signature:
            self._check(message)
            return None
        fields = _fields(message)
        try:
            nonce, salt, iterations = (
                fields["r"],
                b64decode(fields["s"], validate=True),
                int(fields["i"]),
            )
        except (KeyError, ValueError) as error:
            raise PeerError("the broker's message is not one of SCRAM") from error
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise PeerError("the broker's nonce does not begin with the client's")
        if not 0 < iterations <= CLIENT_ITERATIONS_MAX:
            raise PeerError(f"the broker asks for {iterations} iterations")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        credential = credential_of(self._mechanism, salted, salt, iterations)
        text = f"c={b64encode(_HEADER.encode()).decode()},r={nonce}"
        auth_message = f"{self._bare},{message.decode()},{text}".encode()
        self._signature = server_signature(self._mechanism, credential, auth_message)
        sent = proof(self._mechanism, client_key(self._mechanism, salted), auth_message)
        return f"{text},p={b64encode(sent).decode()}".encode()

    def _check(self, message: bytes) -> None:
        expected = b64encode(self._signature)
        found = _fields(message).get("v", "").encode()
        if not hmac.compare_digest(found, expected):
            raise PeerError("the broker does not know the user's password")


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise PeerError("the broker's message is not one of SCRAM") from error
    return dict(each.partition("=")[::2] for each in text.split(","))
