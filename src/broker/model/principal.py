"""Who a connection acts for, as in Kafka's ACLs: a type, of which only User logs in, and a name."""

from typing import NamedTuple

from broker.model.errors import ConfigError

USER = "User"


class Principal(NamedTuple):
    """A type and a name; `User:alice` as text."""

    type: str
    name: str

    def __str__(self) -> str:
        """TYPE:NAME."""
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")  # who has neither logged in nor shown a certificate


def parse_principal(text: str) -> Principal:
    """Parse TYPE:NAME; the name may have colons and may be empty."""
    kind, colon, name = text.partition(":")
    if not (colon and kind):
        raise ConfigError(f"{text!r:.100}: expected TYPE:NAME, for example User:alice")
    return Principal(kind, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """Parse principals, separated by semicolons: their names may have commas."""
    words = (word.strip() for word in text.split(";"))
    return frozenset(parse_principal(word) for word in words if word)
