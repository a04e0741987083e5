"""What follows from a message of a client that logs in."""

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

# What a client of PLAIN or SCRAM is told that wants to act for somebody else, as in Kafka.
OTHER_AUTHORIZATION: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Challenge(NamedTuple):
    """The server's next message; the client's next one follows."""

    message: bytes


class Done(NamedTuple):
    """The client has logged in.

    Attributes:
        message: the server's last message.
        user: the name of its principal.
        ends_ms: when what it logged in with ends, as wall-clock time; None: it does not.
        token_id: of the delegation token that it logged in with, if it has.
    """

    message: bytes
    user: str
    ends_ms: int | None = None
    token_id: str | None = None


class Refused(NamedTuple):
    """The client has not logged in.

    Attributes:
        reason: why, for the log and the metrics: one of a few, with nothing that a client sent.
        message: what the client is told; None: only that its credentials are wrong.
        user: who the client says it is, if it has said that.
        detail: what the log has besides; it contains nothing secret.
    """

    reason: str
    message: str | None = None
    user: str = ""
    detail: str = ""


class Work(NamedTuple):
    """A computation to be done in another thread; its result takes the place of this outcome."""

    run: "Callable[[], Challenge | Done | Refused]"


Outcome: TypeAlias = Challenge | Done | Refused
Step: TypeAlias = Outcome | Work


class Exchange(Protocol):
    """One login of one client; `respond` is not called after Done or Refused."""

    def respond(self, message: bytes, now_ms: int, /) -> Step:
        """Take a client's message, at a wall-clock time."""


class Mechanism(Protocol):
    """A mechanism that a listener offers.

    Attributes:
        name: its name in SASL.
    """

    @property
    def name(self) -> str:
        """Its name in SASL."""

    def begin(self) -> Exchange:
        """Begin a login."""
