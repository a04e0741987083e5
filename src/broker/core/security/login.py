"""The login of one connection as a state machine: what is allowed when, and who it is then.

                      choose              Challenge
    BEGUN ─> VERSIONS ──────> EXCHANGING <────┐
      └─────────────────────>     │  └────────┘
                                  │ Done            choose, to log in again (KIP-368)
                                  ├──────> OPEN ────────────────> EXCHANGING
                                  │ Refused
                                  └──────> FAILED

It reads no clock and does no I/O: times are arguments, and a message that needs a long computation
gives it back as Work, whose result `conclude` takes. docs/security/sasl.md has the rules for users.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from broker.core.security.sasl.outcome import (
    Challenge,
    Exchange,
    Mechanism,
    Outcome,
    Refused,
    Step,
)
from broker.model.principal import USER, Principal
from broker.model.sasl_limits import REAUTHENTICATION_MS_MIN

_NO_END: Final = 0


class Stage(Enum):
    """How far a connection is."""

    BEGUN = "nothing was asked"
    VERSIONS = "the versions were told"
    EXCHANGING = "a mechanism was chosen"
    OPEN = "logged in"
    FAILED = "refused"


class LoginRules(NamedTuple):
    """What a listener asks of its connections.

    Attributes:
        mechanisms: those that it offers, by name, in their order.
        reauthentication_ms: after how long a connection must log in again; 0: never.
        failure_delay_ms: how long the answer to a failed login is held back, to the first one.
    """

    mechanisms: Mapping[str, Mechanism]
    reauthentication_ms: int = 0
    failure_delay_ms: int = 0


class LoggedIn(NamedTuple):
    """The client has logged in.

    Attributes:
        message: the last one of its mechanism.
        principal: who it is.
        lifetime_ms: after which it must log in again; 0: never.
    """

    message: bytes
    principal: Principal
    lifetime_ms: int


class Login:
    """The login of one connection.

    Attributes:
        rules: of its listener.
        stage: how far it is.
        is_bare: whether the client's messages come without the header of a request, as those of
            clients from before Kafka 1.0.
        mechanism: the name of the chosen mechanism; empty before.
        token_id: of the delegation token that the client has logged in with, if it has.
    """

    __slots__ = (
        "_begun_ms",
        "_exchange",
        "_lifetime_ms",
        "_principal",
        "is_bare",
        "mechanism",
        "rules",
        "stage",
        "token_id",
    )

    def __init__(self, rules: LoginRules) -> None:
        """Begin."""
        self.rules = rules
        self.stage = Stage.BEGUN
        self.is_bare = False
        self.mechanism = ""
        self.token_id: str | None = None
        self._exchange: Exchange | None = None
        self._principal: Principal | None = None  # of the first login
        self._lifetime_ms = _NO_END
        self._begun_ms: int | None = None  # monotonic: the start of the last re-authentication

    def may_choose(self, steady_ms: int) -> bool:
        """Return whether the client may choose a mechanism at a monotonic time."""
        if self.stage is not Stage.OPEN:
            return self.stage in {Stage.BEGUN, Stage.VERSIONS}
        return self._lifetime_ms != _NO_END and (
            self._begun_ms is None or steady_ms - self._begun_ms >= REAUTHENTICATION_MS_MIN
        )

    def choose(self, name: str, steady_ms: int, *, is_bare: bool) -> Refused | None:
        """Choose a mechanism; return why it is refused: the login has failed then."""
        if self.stage is Stage.OPEN:
            self._begun_ms = steady_ms
        mechanism = self.rules.mechanisms.get(name)
        if mechanism is None:
            self.stage = Stage.FAILED
            return Refused("mechanism not offered", detail=repr(name[:100]))
        if self._principal is not None and name != self.mechanism:
            self.stage = Stage.FAILED
            return Refused(
                "re-authentication with another mechanism", detail=f"{name} after {self.mechanism}"
            )
        self.stage = Stage.EXCHANGING
        self.is_bare = is_bare
        self.mechanism = name
        self._exchange = mechanism.begin()
        return None

    def respond(self, message: bytes, now_ms: int) -> Step:
        """Take a message of the client at a wall-clock time; its outcome goes to `conclude`."""
        assert self._exchange is not None
        return self._exchange.respond(message, now_ms)

    def conclude(self, outcome: Outcome, now_ms: int) -> Challenge | LoggedIn | Refused:
        """Take the outcome of a message; the message of a Refused is what the client is told."""
        if isinstance(outcome, Challenge):
            return outcome
        self._exchange = None
        if isinstance(outcome, Refused):
            self.stage = Stage.FAILED
            return outcome._replace(message=outcome.message or self._wrong_credentials())
        principal = Principal(USER, outcome.user)
        if self._principal not in {None, principal}:
            self.stage = Stage.FAILED
            text = _other_principal(self._principal, principal)
            return Refused("another principal", text, outcome.user)
        if outcome.ends_ms is not None and outcome.ends_ms <= now_ms:
            self.stage = Stage.FAILED
            return Refused("expired meanwhile", self._wrong_credentials(), outcome.user)
        self.stage = Stage.OPEN
        self.token_id = outcome.token_id
        self._principal = principal
        self._lifetime_ms = self._lifetime(outcome.ends_ms, now_ms)
        return LoggedIn(outcome.message, principal, self._lifetime_ms)

    def fail(self, reason: str) -> Refused:
        """End a login that has succeeded."""
        self.stage = Stage.FAILED
        return Refused(reason, self._wrong_credentials())

    def _lifetime(self, ends_ms: int | None, now_ms: int) -> int:
        lifetimes = [] if ends_ms is None else [ends_ms - now_ms]
        if self.rules.reauthentication_ms > 0:
            lifetimes.append(self.rules.reauthentication_ms)
        return min(lifetimes, default=_NO_END)

    def _wrong_credentials(self) -> str:
        what = "authentication" if self._principal is None else "re-authentication"
        return (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism"
            f" {self.mechanism}"
        )


def _other_principal(before: Principal | None, after: Principal) -> str:
    assert before is not None
    return (
        f"Cannot change principals during re-authentication from {before.type}.{before.name}:"
        f" {after.type}.{after.name}"
    )
