"""SCRAM (RFC 5802), the server's side: each side proves what it knows of a password.

    client-first   n,[a=id],n=user,r=nonce[,tokenauth=true]
    server-first   r=nonce and the server's part,s=salt,i=iterations
    client-final   c=the header in base64,r=both nonces,p=proof
    server-final   v=signature

A user that does not exist gets a salt and fails with its proof, as one with a wrong password does.
Channel binding is not offered: a header of `p=`, or of `y` by a client that could bind, is refused.
"""

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.core.security.sasl.outcome import (
    OTHER_AUTHORIZATION,
    Challenge,
    Done,
    Refused,
    Step,
    Work,
)
from broker.model.sasl_limits import SCRAM_MESSAGE_BYTES_MAX
from broker.model.scram import (
    ScramCredential,
    ScramMechanism,
    is_proven,
    server_signature,
    unescaped,
)

_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"((?:,[A-Za-z]+=[^,\x00]*)*)"
_FIRST: Final = re.compile(rf"(n,(?:a=([^,\x00]+))?,)(n=([^,\x00]+),r=({_PRINTABLE}){_EXTENSIONS})")
_FINAL: Final = re.compile(
    rf"(c=([A-Za-z0-9+/=]+),r=({_PRINTABLE}){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)"
)
_OF_TOKEN: Final = "tokenauth"  # noqa: S105 (the name of an extension)
_NO_BINDING: Final = b"n,,"  # some clients send this header, whatever theirs was


class ScramIdentity(NamedTuple):
    """Whom a credential is of.

    Attributes:
        user: the name of the principal.
        credential: its keys.
        is_known: False for made-up keys, with which nobody logs in.
        ends_ms: when it ends, as wall-clock time; None: it does not.
        token_id: of the delegation token, if it is of one.
    """

    user: str
    credential: ScramCredential
    is_known: bool = True
    ends_ms: int | None = None
    token_id: str | None = None


# Finds the identity of (user or id of a token, whether it is a token, the time); one whose keys
# must be derived first comes as a function for another thread.
FindIdentity = Callable[[str, bool, int], ScramIdentity | Callable[[], ScramIdentity]]


class Scram:
    """One of the mechanisms."""

    def __init__(
        self, mechanism: ScramMechanism, find: FindIdentity, nonce: Callable[[], str]
    ) -> None:
        """Keep how to find identities, and what makes the server's part of nonces."""
        self.name = mechanism.name
        self.mechanism = mechanism
        self.find = find
        self.nonce = nonce

    def begin(self) -> "ScramExchange":
        """Begin a login."""
        return ScramExchange(self)


class ScramExchange:
    """One login."""

    def __init__(self, scram: Scram) -> None:
        """Begin with the client's first message."""
        self._scram = scram
        self._identity: ScramIdentity | None = None
        self._header = b""
        self._nonce = ""
        self._messages = b""  # client-first without its header, and server-first

    def respond(self, message: bytes, now_ms: int) -> Step:
        """Take the first or the final message."""
        if len(message) > SCRAM_MESSAGE_BYTES_MAX:
            return Refused("long message")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            return Refused("malformed message")
        if self._identity is None:
            return self._take_first(text, now_ms)
        return self._take_final(text, self._identity)

    def _take_first(self, text: str, now_ms: int) -> Step:
        first = _FIRST.fullmatch(text)
        if first is None:
            return Refused("malformed first message")
        header, authorization_id, bare, name, nonce, extensions = first.groups()
        user = unescaped(name)
        if user is None:
            return Refused("malformed user name")
        if authorization_id is not None and unescaped(authorization_id) != user:
            return Refused("another authorization id", OTHER_AUTHORIZATION, user)
        self._header = header.encode()
        self._nonce = nonce + self._scram.nonce()
        found = self._scram.find(user, _is_of_token(extensions), now_ms)
        if isinstance(found, ScramIdentity):
            return self._challenge(bare, found)
        return Work(lambda: self._challenge(bare, found()))

    def _challenge(self, bare: str, identity: ScramIdentity) -> Challenge:
        self._identity = identity
        salt = b64encode(identity.credential.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={identity.credential.iterations}"
        self._messages = f"{bare},{server_first}".encode()
        return Challenge(server_first.encode())

    def _take_final(self, text: str, identity: ScramIdentity) -> Done | Refused:
        final = _FINAL.fullmatch(text)
        user = identity.user
        if final is None:
            return Refused("malformed final message", user=user)
        without_proof, header, nonce, _, proof = final.groups()
        if not hmac.compare_digest(nonce, self._nonce):
            return Refused("another nonce", user=user)
        if _decoded(header) not in {self._header, _NO_BINDING}:
            return Refused("another header in the final message", user=user)
        client_proof = _decoded(proof)
        if client_proof is None:
            return Refused("malformed proof", user=user)
        auth_message = self._messages + b"," + without_proof.encode()
        mechanism, credential = self._scram.mechanism, identity.credential
        is_right = is_proven(mechanism, credential, auth_message, client_proof)
        if not (is_right and identity.is_known):
            return Refused("wrong user or password", user=user)
        signature = b64encode(server_signature(mechanism, credential, auth_message))
        return Done(b"v=" + signature, identity.user, identity.ends_ms, identity.token_id)


def _is_of_token(extensions: str) -> bool:
    named = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return named.get(_OF_TOKEN, "").lower() == "true"


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None
