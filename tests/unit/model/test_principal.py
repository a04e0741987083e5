"""Principals as text."""

import pytest

from broker.model.config import load
from broker.model.errors import ConfigError
from broker.model.principal import ANONYMOUS, Principal, parse_principal, parse_principals


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a,OU=b:c", "Group:", "User:ANONYMOUS"])
def test_a_principal_is_a_type_and_a_name(text: str) -> None:
    assert str(parse_principal(text)) == text
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert parse_principal("User:ANONYMOUS") == ANONYMOUS


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_a_text_without_a_type_is_no_principal(text: str) -> None:
    with pytest.raises(ConfigError, match="User:alice"):
        parse_principal(text)


def test_principals_are_separated_by_semicolons_as_names_have_commas() -> None:
    found = parse_principals("User:CN=a,O=b; User:admin;;User:x:y")

    assert {str(each) for each in found} == {"User:CN=a,O=b", "User:admin", "User:x:y"}
    assert parse_principals("") == frozenset()


@pytest.mark.parametrize(
    "setting",
    [
        "super.users=admin",
        "super.users=User:a;b",
        "polylog.principal=alice",
        "polylog.principal=;",
        "listener.name.plaintext.polylog.principal=alice",
        "polylog.audit.excluded.principals=User:metrics,probe",
    ],
)
def test_a_setting_that_is_no_principal_is_refused_by_its_name(setting: str) -> None:
    with pytest.raises(ConfigError, match=setting.partition("=")[0]):
        load([setting])
