r"""OAUTHBEARER (RFC 7628): the client sends a token that an authorization server has signed.

first message    n,[a=id],^Aauth=Bearer <token>^A[name=value^A]^A
after a failure  {"status":"invalid_token"}, which the client answers with ^A
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.core.security.sasl.outcome import Challenge, Done, Outcome, Refused, Step, Work

NAME: Final = "OAUTHBEARER"
_INVALID: Final = '{"status":"invalid_token"}'
_MALFORMED: Final = "Invalid OAUTHBEARER client first message"
_FIRST: Final = re.compile(
    r"n,(?:a=([^,\x00\x01]+))?,\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_AUTH: Final = re.compile(r"(\S+) +([-_.+~/=A-Za-z0-9]+) *")


class Bearer(NamedTuple):
    """Whom a valid token is of, and when it ends (wall clock)."""

    user: str
    ends_ms: int


# Returns the bearer of a token at a time, or why it is not valid, which may be followed by a colon
# and details; called in another thread.
Verify = Callable[[str, int], Bearer | str]


class OAuthBearer:
    """The mechanism."""

    name = NAME

    def __init__(self, verify: Verify) -> None:
        """Keep what checks tokens."""
        self.verify = verify

    def begin(self) -> "OAuthBearerExchange":
        """Begin a login."""
        return OAuthBearerExchange(self.verify)


class OAuthBearerExchange:
    """One login."""

    def __init__(self, verify: Verify) -> None:
        """Keep what checks the token."""
        self._verify = verify
        self._failure: str | None = None  # of a token whose failure the client has been told

    def respond(self, message: bytes, now_ms: int) -> Step:
        """Take the token, or the answer to its failure."""
        if self._failure is not None:
            reason, _, detail = self._failure.partition(": ")
            return Refused(reason, _INVALID, detail=detail)
        first = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if first is None:
            return Refused("malformed message", _MALFORMED)
        authorization_id, pairs = first.groups()
        named = dict(each.split("=", 1) for each in pairs.split("\x01") if each)
        if "auth" not in named:
            return Refused("no token", f"{_MALFORMED}: 'auth' not specified")
        auth = _AUTH.fullmatch(named["auth"])
        if auth is None:
            return Refused("malformed token", f"{_MALFORMED}: invalid 'auth' format")
        scheme, token = auth.groups()
        if scheme.lower() != "bearer":
            return Refused(
                "another scheme", f"Invalid scheme in OAUTHBEARER client first message: {scheme}"
            )
        return Work(lambda: self._check(token, authorization_id, now_ms))

    def _check(self, token: str, authorization_id: str | None, now_ms: int) -> Outcome:
        found = self._verify(token, now_ms)
        if isinstance(found, str):
            self._failure = found
            return Challenge(_INVALID.encode())
        if authorization_id not in {None, found.user}:
            text = (
                "Authentication failed: Client requested an authorization id"
                f" ({authorization_id}) that is different from the token's principal name"
                f" ({found.user})"
            )
            return Refused("another authorization id", text, found.user)
        return Done(b"", found.user, found.ends_ms)
