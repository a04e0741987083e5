"""What has to be on record about who did what, and the function that puts it there.

    security.audit(Login(...))     a login that has succeeded or failed, also by a certificate
    security.audit(Decision(...))  what the authorizer has decided about one resource
    security.audit(Account(...))   a user, a token or a credential that was made, changed, deleted

The audit decides by itself which events are recorded: callers tell everything that it `wants`.
An event is put in a bounded queue; server/auditing.py writes the queue. What `audit` returns says
whether the request may go on: with `polylog.audit.fail.closed` it is false while events cannot be
written, and the caller refuses the request as not authorized.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple, TypeAlias

from broker.model.security_limits import AUDIT_TEXT_CHARACTERS_MAX

# Its records are events; who reads them makes no more of them.
AUDIT_TOPIC = "__audit"


class Peer(NamedTuple):
    """The client of a connection, and how it came."""

    host: str
    listener: str  # its name, such as SASL_SSL
    protocol: str  # such as kafka


class Login(NamedTuple):
    """A client has said who it is."""

    peer: Peer
    user: str  # the principal, such as User:alice; of a failed login: the one that was claimed
    mechanism: str  # such as SCRAM-SHA-256, or TLS for a certificate
    failure: str = ""  # why it was refused; empty: it was not


class Decision(NamedTuple):
    """The authorizer has allowed or denied one operation on one resource."""

    peer: Peer
    user: str
    request: str  # the name of the API or command, such as CreateTopics
    operation: str  # Kafka's name, such as Create
    resource_type: str  # Kafka's name, such as Topic
    resource_name: str
    is_allowed: bool
    detail: str = ""  # what is changed, without secrets, such as the text of an ACL


class AccountChange(Enum):
    """What happens to a user's credentials or to a token."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


class Account(NamedTuple):
    """Credentials have been changed."""

    peer: Peer
    user: str  # who does it
    account: str  # whose credentials, such as User:bob
    change: AccountChange
    detail: str = ""  # such as the mechanism


Event: TypeAlias = Login | Decision | Account

# Decisions about data; every other one that is allowed is administration, or only tells something.
# What other brokers copy (ClusterAction) is data, too.
ACCESS_OPERATIONS = frozenset({"Read", "Write", "IdempotentWrite"})
_QUESTIONS = frozenset({"Describe", "DescribeConfigs", "DescribeTokens"})


class Kind(Enum):
    """Groups of events, with the names of the setting `polylog.audit.events`."""

    LOGIN = "login"
    DENIAL = "denial"
    ADMINISTRATION = "administration"
    ACCESS = "access"
    QUESTION = "question"


def kind_of(event: Event) -> Kind:
    """Return the group of an event."""
    if isinstance(event, Login):
        return Kind.LOGIN
    if isinstance(event, Account):
        return Kind.ADMINISTRATION
    if not event.is_allowed:
        return Kind.DENIAL
    if event.operation in ACCESS_OPERATIONS or event.operation == "ClusterAction":
        return Kind.ACCESS
    return Kind.QUESTION if event.operation in _QUESTIONS else Kind.ADMINISTRATION


class Audit:
    """Passes events on that are to be recorded; called by the loop only."""

    def __init__(
        self, kinds: Collection[Kind], excluded_users: Collection[str], put: Callable[[Event], bool]
    ) -> None:
        """Keep which events are recorded.

        Args:
            kinds: those to record.
            excluded_users: whose events are not recorded, except for denials and failed logins.
            put: takes an event; returns whether what it is about may go on.
        """
        self._kinds = frozenset(kinds)
        self._excluded = frozenset(excluded_users)
        self._put = put

    def wants(self, kind: Kind) -> bool:
        """Whether events of that group are recorded; data is read and written faster if not."""
        return kind in self._kinds

    def __call__(self, event: Event) -> bool:
        """Record an event if it has to be; return whether what it is about may go on."""
        if kind_of(event) not in self._kinds:
            return True
        if event.user in self._excluded and not is_refusal(event):
            return True
        if _is_of_the_audit(event):
            return True
        return self._put(event)


def _is_of_the_audit(event: Event) -> bool:
    """Whether it is about reading the audit's topic, or about writing what is there already."""
    return (
        isinstance(event, Decision)
        and event.is_allowed
        and event.resource_name == AUDIT_TOPIC
        and kind_of(event) in (Kind.ACCESS, Kind.QUESTION)
    )


def is_refusal(event: Event) -> bool:
    """Whether a request or login was refused."""
    match event:
        case Login():
            return event.failure != ""
        case Decision():
            return not event.is_allowed
        case Account():
            return False


def shortened(text: str) -> str:
    """Return what is recorded of a text from a client: its start, if it is long."""
    return (
        text if len(text) <= AUDIT_TEXT_CHARACTERS_MAX else text[:AUDIT_TEXT_CHARACTERS_MAX] + "…"
    )
