"""What a connection may send when, and who it is then (KIP-43, KIP-152, KIP-368)."""

from typing import Any

import pytest

from broker.core.security.login import LoggedIn, Login, LoginRules, Stage
from broker.core.security.sasl.outcome import Challenge, Done, Refused, Work
from broker.model.principal import Principal

ALICE = Principal("User", "alice")


class FixedMechanism:
    """A mechanism whose exchanges have fixed outcomes."""

    def __init__(self, name: str, *outcomes: Any) -> None:
        self.name = name
        self.outcomes = list(outcomes)

    def begin(self) -> "FixedMechanism":
        return self

    def respond(self, _message: bytes, _now_ms: int) -> Any:
        return self.outcomes.pop(0)


def begun(*outcomes: Any, reauthentication_ms: int = 0) -> Login:
    mechanisms = {name: FixedMechanism(name, *outcomes) for name in ("PLAIN", "SCRAM-SHA-256")}
    return Login(LoginRules(mechanisms, reauthentication_ms))


def take(login: Login, now_ms: int = 0) -> Any:
    step = login.respond(b"", now_ms)
    assert not isinstance(step, Work)
    return login.conclude(step, now_ms)


def stage_of(login: Login) -> Stage:
    return login.stage


def logged_in(*outcomes: Any, **rules: Any) -> Login:
    login = begun(*(outcomes or (Done(b"", "alice"),)), **rules)
    login.choose("PLAIN", 0, is_bare=False)
    assert isinstance(take(login), LoggedIn)
    return login


def test_a_login_takes_as_many_messages_as_its_mechanism_needs() -> None:
    login = begun(Challenge(b"first"), Done(b"last", "alice"))

    assert login.choose("PLAIN", 0, is_bare=False) is None
    assert take(login) == Challenge(b"first")
    assert stage_of(login) is Stage.EXCHANGING
    assert take(login) == LoggedIn(b"last", ALICE, 0)
    assert login.stage is Stage.OPEN


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    login = begun()

    refused = login.choose("GSSAPI", 0, is_bare=False)

    assert refused == Refused("mechanism not offered", detail="'GSSAPI'")
    assert login.stage is Stage.FAILED
    assert not login.may_choose(0)


def test_a_refusal_without_a_message_says_only_that_credentials_are_wrong() -> None:
    login = begun(Refused("reason"))
    login.choose("SCRAM-SHA-256", 0, is_bare=False)

    assert take(login).message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism"
        " SCRAM-SHA-256"
    )


def test_a_session_without_end_is_not_authenticated_again() -> None:
    assert not logged_in().may_choose(10_000)


@pytest.mark.parametrize(
    ("ends_ms", "reauthentication_ms", "lifetime_ms"),
    [(None, 0, 0), (None, 1500, 1500), (5000, 0, 4000), (5000, 1500, 1500), (2000, 1500, 1000)],
)
def test_the_lifetime_is_the_shorter_of_what_it_logged_in_with_and_the_setting(
    ends_ms: int | None, reauthentication_ms: int, lifetime_ms: int
) -> None:
    login = begun(Done(b"", "alice", ends_ms), reauthentication_ms=reauthentication_ms)
    login.choose("PLAIN", 0, is_bare=False)

    assert take(login, 1000).lifetime_ms == lifetime_ms


def test_what_has_expired_meanwhile_is_refused() -> None:
    login = begun(Done(b"", "alice", 1000))
    login.choose("PLAIN", 0, is_bare=False)

    assert isinstance(take(login, 1000), Refused)


def test_re_authentication_starts_once_a_second() -> None:
    login = logged_in(*[Done(b"", "alice")] * 3, reauthentication_ms=5000)

    assert login.may_choose(0)  # counted from the last re-authentication, not from the login
    login.choose("PLAIN", 100, is_bare=False)
    take(login)
    assert not login.may_choose(1099)
    assert login.may_choose(1100)


def test_re_authentication_keeps_the_principal() -> None:
    login = logged_in(Done(b"", "alice"), Done(b"", "bob"), reauthentication_ms=5000)
    login.choose("PLAIN", 100, is_bare=False)

    assert take(login).message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert login.stage is Stage.FAILED


def test_re_authentication_keeps_the_mechanism() -> None:
    login = logged_in(reauthentication_ms=5000)

    assert isinstance(login.choose("SCRAM-SHA-256", 100, is_bare=False), Refused)


def test_a_failed_re_authentication_says_so() -> None:
    login = logged_in(Done(b"", "alice"), Refused("wrong"), reauthentication_ms=5000)
    login.choose("PLAIN", 100, is_bare=False)

    assert "failed during re-authentication due to" in take(login).message
