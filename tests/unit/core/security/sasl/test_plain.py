"""PLAIN: RFC 4616, with Kafka's messages."""

from typing import Any

import pytest

from broker.core.security.sasl.outcome import Done, Refused, Work
from broker.core.security.sasl.plain import Plain, StoredPassword


def respond(message: bytes, stored: StoredPassword = lambda *_: None) -> Any:
    return Plain({"alice": "secret", "bob": "p\u00e4ss"}, stored).begin().respond(message, 0)


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0bob\0p\u00e4ss".encode(), "bob"),
    ],
)
def test_the_right_password_logs_in(message: bytes, user: str) -> None:
    assert respond(message) == Done(b"", user)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0secret ", "Authentication failed: Invalid username or password"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 50, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            (
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            ),
        ),
    ],
)
def test_everything_else_is_refused(message: bytes, text: str) -> None:
    refused = respond(message)

    assert isinstance(refused, Refused)
    assert refused.message == text
    assert "secret" not in refused.reason


def test_a_wrong_password_with_another_authorization_id_is_a_wrong_password() -> None:
    assert "Invalid username" in respond(b"bob\0alice\0wrong").message


@pytest.mark.parametrize(("is_right", "outcome"), [(True, Done), (False, Refused)])
def test_stored_users_are_compared_elsewhere(is_right: bool, outcome: type) -> None:
    work = respond(b"\0carol\0secret", lambda *_: lambda: is_right)

    assert isinstance(work, Work)
    assert isinstance(work.run(), outcome)


def test_users_of_the_configuration_come_first() -> None:
    """Whose wrong passwords take as long as those of others: they are compared, too."""
    work = respond(b"\0alice\0wrong", lambda *_: lambda: True)

    assert isinstance(work, Work)
    assert isinstance(work.run(), Refused)
