"""PLAIN (RFC 4616): one message with the password; only TLS hides it on its way.

message   [authorization id] NUL user NUL password
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from broker.core.security.sasl.outcome import (
    OTHER_AUTHORIZATION,
    Done,
    Outcome,
    Refused,
    Step,
    Work,
)

NAME: Final = "PLAIN"
_FAILED: Final = "Authentication failed: "
_PARTS: Final = 3

# Returns whether a password is that of a stored user, in another thread: it derives keys. It takes
# as long for users that do not exist. None: no user is stored.
StoredPassword = Callable[[str, str], Callable[[], bool] | None]


class Plain:
    """The mechanism, with the users of a listener's configuration and those that are stored."""

    name = NAME

    def __init__(self, users: Mapping[str, str], stored: StoredPassword) -> None:
        """Keep users with their passwords, and how to compare with stored ones."""
        self._users = users
        self._stored = stored

    def begin(self) -> "PlainExchange":
        """Begin a login."""
        return PlainExchange(self)

    def compare(self, user: str, password: str, authorization_id: str) -> Step:
        """Return whether the password is that of the user."""
        known = self._users.get(user)
        is_right = known is not None and hmac.compare_digest(known.encode(), password.encode())
        compare = None if is_right else self._stored(user, password)
        if compare is None:
            return _outcome(user, authorization_id, is_right=is_right)
        # A wrong password of a user of the configuration takes as long: the time tells no names.
        return Work(lambda: _outcome(user, authorization_id, is_right=compare() and known is None))


def _outcome(user: str, authorization_id: str, *, is_right: bool) -> Outcome:
    if not is_right:
        text = "Invalid username or password"
        return Refused("wrong user or password", _FAILED + text, user)
    if authorization_id not in {"", user}:
        return Refused("another authorization id", OTHER_AUTHORIZATION, user)
    return Done(b"", user)


class PlainExchange:
    """One login."""

    def __init__(self, mechanism: Plain) -> None:
        """Keep the mechanism."""
        self._mechanism = mechanism

    def respond(self, message: bytes, now_ms: int) -> Step:  # noqa: ARG002 (see Exchange)
        """Compare the password of the only message."""
        parts = message.decode("utf-8", "replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            text = f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
            return Refused("malformed message", text)
        authorization_id, user, password = parts
        if not user:
            return Refused("no user", f"{_FAILED}username not specified")
        if not password:
            return Refused("no password", f"{_FAILED}password not specified", user)
        return self._mechanism.compare(user, password, authorization_id)
