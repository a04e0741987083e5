"""Where keys of tokens may come from."""

from pathlib import Path

import pytest

from broker.core.security import token_keys
from broker.core.security.sasl.bearer_tokens import Claims, UnknownKeyError
from broker.core.security.token_keys import TokenKeys, reader
from broker.model.errors import ConfigError
from broker.model.sasl_limits import (
    TOKEN_KEYS_AGAIN_SECONDS,
    TOKEN_KEYS_BYTES_MAX,
    TOKEN_KEYS_FETCH_SECONDS,
)
from tests.support.manual_clock import ManualClock


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/keys",
        "ftp://host/keys",
        "file://host/etc/passwd",
        "/etc/keys",
        "https://other.example/keys",
        "https://issuer.example/keys/../other",
        "https://issuer.example@other.example/keys",
        "",
    ],
)
def test_an_address_that_is_not_allowed_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        reader(url, ["https://issuer.example/keys"])


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "some keys.json"
    file.write_text("{}")

    assert reader(file.as_uri(), [])() == b"{}"


def test_a_file_that_is_missing_or_too_long_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(ConfigError):
        reader(file.as_uri(), [])()
    file.write_bytes(bytes(TOKEN_KEYS_BYTES_MAX + 1))
    with pytest.raises(ConfigError):
        reader(file.as_uri(), [])()


class NoKeys:
    """A verifier to which every key is unknown."""

    def __init__(self, *_: object) -> None:
        """Keep nothing."""

    def verify(self, token: str, now_ms: int) -> str:
        """Raise UnknownKeyError."""
        raise UnknownKeyError(f"{token} at {now_ms}")


def test_logins_go_on_between_two_attempts_to_fetch_keys_that_do_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt holds the thread of all logins until its time is over."""
    monkeypatch.setattr(token_keys, "parse_keys", lambda _: [])
    monkeypatch.setattr(token_keys, "TokenVerifier", NoKeys)
    clock = ManualClock()
    attempts: list[int] = []

    def read() -> bytes:
        if attempts:
            clock.advance(TOKEN_KEYS_FETCH_SECONDS * 1000)
        attempts.append(clock.monotonic_ms())
        if len(attempts) > 1:
            raise ConfigError("no answer")
        return b""

    keys = TokenKeys(read, Claims(), 3_600_000, clock.monotonic_ms)
    clock.advance(TOKEN_KEYS_AGAIN_SECONDS * 1000)
    for _ in range(3):
        assert keys.verify("a token", 0) == "unknown key: 'a token at 0'"
    assert len(attempts) == 2

    clock.advance(TOKEN_KEYS_AGAIN_SECONDS * 1000)
    keys.verify("a token", 0)
    assert len(attempts) == 3
