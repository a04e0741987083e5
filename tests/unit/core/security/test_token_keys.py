"""Where keys of tokens may come from."""

from pathlib import Path

import pytest

from broker.core.security.token_keys import reader
from broker.model.errors import ConfigError
from broker.model.sasl_limits import TOKEN_KEYS_BYTES_MAX


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
