"""Principals as text."""

import pytest

from broker.model.errors import ConfigError
from broker.model.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a,OU=b:c", "Group:", "User:ANONYMOUS"])
def test_a_principal_is_a_type_and_a_name(text: str) -> None:
    assert str(parse_principal(text)) == text
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert parse_principal("User:ANONYMOUS") == ANONYMOUS


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_a_text_without_a_type_is_no_principal(text: str) -> None:
    with pytest.raises(ConfigError, match="User:alice"):
        parse_principal(text)
