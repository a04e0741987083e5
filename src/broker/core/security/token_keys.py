"""The keys of an authorization server: read from a file or fetched, kept, and renewed.

The address is one of the broker's own configuration: a file, or https to an address that
polylog.sasl.oauthbearer.allowed.urls lists. Redirects are not followed. Both run in the thread of
logins, which waits for them; a fetch that fails keeps the keys that are known.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from broker.core.security.sasl.bearer_tokens import (
    Claims,
    TokenVerifier,
    UnknownKeyError,
    parse_keys,
)
from broker.core.security.sasl.oauthbearer import Bearer
from broker.model.errors import ConfigError
from broker.model.sasl_limits import (
    TOKEN_KEYS_AGAIN_SECONDS,
    TOKEN_KEYS_BYTES_MAX,
    TOKEN_KEYS_FETCH_SECONDS,
)

_log = logging.getLogger(__name__)
_NAME: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ALLOWED: Final = "polylog.sasl.oauthbearer.allowed.urls"


class TokenKeys:
    """Checks tokens with the keys at an address."""

    def __init__(
        self,
        read: Callable[[], bytes],
        claims: Claims,
        refresh_ms: int,
        steady_ms: Callable[[], int],
    ) -> None:
        """Read the keys.

        Args:
            read: returns the key set; raises ConfigError.
            claims: what tokens must have.
            refresh_ms: after how long the keys are read again.
            steady_ms: a monotonic clock.

        Raises:
            ConfigError: there are no keys yet, and there will be none.
        """
        self._read = read
        self._claims = claims
        self._refresh_ms = refresh_ms
        self._steady_ms = steady_ms
        self._verifier = TokenVerifier(parse_keys(read()), claims)
        self._read_ms = self._tried_ms = steady_ms()

    def verify(self, token: str, now_ms: int) -> Bearer | str:
        """Return whose token it is at a wall-clock time, or why it is not valid; may fetch keys."""
        if self._steady_ms() - self._read_ms >= self._refresh_ms:
            self._refresh()
        try:
            return self._verifier.verify(token, now_ms)
        except UnknownKeyError:
            self._refresh()
        try:
            return self._verifier.verify(token, now_ms)
        except UnknownKeyError as error:
            return f"unknown key: {str(error)!r}"

    def _refresh(self) -> None:
        begun_ms = self._steady_ms()
        if begun_ms - self._tried_ms < TOKEN_KEYS_AGAIN_SECONDS * 1000:
            return
        try:
            self._verifier = TokenVerifier(parse_keys(self._read()), self._claims)
        except ConfigError as error:
            _log.warning("keys of tokens cannot be read again, the old ones stay: error=%s", error)
        else:
            self._read_ms = begun_ms
        # From its end on: while the server does not answer, logins go on between two attempts.
        self._tried_ms = self._steady_ms()


def reader(url: str, allowed: Collection[str]) -> Callable[[], bytes]:
    """Return what reads the keys at an address; ConfigError for one that is not allowed."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        path = Path(unquote(parts.path))
        return lambda: _read_file(path)
    if parts.scheme != "https":
        raise ConfigError(f"{_NAME}: {url[:200]!r} is neither file:///... nor https://...")
    if url not in allowed:
        raise ConfigError(f"{_NAME}: {url[:200]!r} is not one of {_ALLOWED}")
    return lambda: _fetch(url)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_KEYS_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{_NAME}: {path} cannot be read: {error.strerror}") from None
    return _bounded(text)


def _fetch(url: str) -> bytes:
    from http.client import HTTPException, HTTPSConnection  # noqa: PLC0415 - rarely needed

    parts = urlsplit(url)
    path = parts._replace(scheme="", netloc="").geturl() or "/"
    try:
        connection = HTTPSConnection(
            parts.hostname or "", parts.port, timeout=TOKEN_KEYS_FETCH_SECONDS
        )
        with closing(connection):
            connection.request("GET", path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise ConfigError(f"{_NAME}: {url[:200]} answers {answer.status}")
            return _bounded(answer.read(TOKEN_KEYS_BYTES_MAX + 1))
    except (OSError, HTTPException) as error:
        raise ConfigError(f"{_NAME}: {url[:200]} cannot be read: {error}") from None


def _bounded(text: bytes) -> bytes:
    if len(text) > TOKEN_KEYS_BYTES_MAX:
        raise ConfigError(f"{_NAME}: a key set of more than {TOKEN_KEYS_BYTES_MAX} bytes")
    return text
