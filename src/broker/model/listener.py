"""Listeners by name: what Kafka's `listeners` and `listener.security.protocol.map` say (KIP-103).

    [NAME://]HOST:PORT    a security protocol, or a name that listener.security.protocol.map maps
    DIALECT://HOST:PORT   kafka, v1, ...: for that protocol only; its name is that of the dialect

Without a name it is PLAINTEXT. Several listeners may share a name, and with it their settings: what
`listener.name.<name in small letters>.` precedes is for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from broker.model.address import Address, parse_address
from broker.model.errors import ConfigError
from broker.model.protocol_names import PINNABLE

PREFIX = "listener.name."
SEPARATOR = "://"


class SecurityProtocol(Enum):
    """Kafka's security protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerConfig(NamedTuple):
    """One listener."""

    name: str  # in capital letters, as in Kafka
    address: Address  # its protocol is the dialect that it is pinned to
    advertised: Address | None  # to clients; None: the address they connected to
    security: SecurityProtocol

    def __str__(self) -> str:
        """The listener as in `listeners`."""
        is_plain = self.name == SecurityProtocol.PLAINTEXT.name or self.address.protocol
        return str(self.address) if is_plain else f"{self.name}{SEPARATOR}{self.address}"

    @property
    def prefix(self) -> str:
        """What precedes the names of settings that are for this listener."""
        return f"{PREFIX}{self.name.lower()}."


# Of connections that no listener has accepted: those of tests, and of tools that serve a broker.
UNSECURED = ListenerConfig("PLAINTEXT", Address("", 0), None, SecurityProtocol.PLAINTEXT)


def parse_protocol_map(words: Iterable[str]) -> dict[str, SecurityProtocol]:
    """Parse NAME:PROTOCOL words; the protocols themselves are names that need no entry."""
    protocols = {each.name: each for each in SecurityProtocol}
    for word in words:
        name, colon, protocol = word.rpartition(":")
        if not colon or not name or protocol.upper() not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(
                f"listener.security.protocol.map: {word!r:.100}: expected NAME:PROTOCOL, with one"
                f" of {known}"
            )
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def parse_listeners(
    words: Sequence[str], advertised: Sequence[str], protocols: Mapping[str, SecurityProtocol]
) -> tuple[ListenerConfig, ...]:
    """Parse `listeners` with the addresses that `advertised.listeners` gives them.

    An advertised address with a name is that of the listener with the name; one without is that of
    the first listener that has none yet.
    """
    found = [_parse(word, protocols) for word in words]
    for word in advertised:
        name, address = _split_advertised(word, found)
        place = _place(found, name)
        if place is None:
            raise ConfigError(
                f"advertised.listeners: no listener without an address is named {name}"
                if name
                else f"advertised.listeners has {len(advertised)} addresses for {len(found)}"
                " listeners: give one for each, or none"
            )
        found[place] = found[place]._replace(advertised=address)
    return tuple(found)


def _parse(word: str, protocols: Mapping[str, SecurityProtocol]) -> ListenerConfig:
    scheme, separator, rest = word.strip().rpartition(SEPARATOR)
    name = scheme.upper()
    if not separator:
        name = SecurityProtocol.PLAINTEXT.name
    if scheme.lower() in PINNABLE:
        security = protocols.get(name, SecurityProtocol.PLAINTEXT)
        return ListenerConfig(name, _address("listeners", word), None, security)
    if name not in protocols:
        known = ", ".join(f"{each}{SEPARATOR}" for each in (*PINNABLE, *protocols))
        raise ConfigError(
            f"listeners: {word!r:.200}: {scheme}{SEPARATOR} is not known; {known} are. Another"
            " name needs an entry NAME:PROTOCOL in listener.security.protocol.map"
        )
    return ListenerConfig(name, _address("listeners", rest), None, protocols[name])


def _split_advertised(word: str, listeners: Sequence[ListenerConfig]) -> tuple[str, Address]:
    """Return the name that an advertised address gives, and the address.

    "": none, or one that says only which wire protocol it is for and not which listener.
    """
    scheme, _, rest = word.strip().rpartition(SEPARATOR)
    address = _address("advertised.listeners", rest)
    name = scheme.upper()
    is_of_one = name in {each.name for each in listeners}
    is_order_enough = name in {"", SecurityProtocol.PLAINTEXT.name} or scheme.lower() in PINNABLE
    return name if is_of_one or not is_order_enough else "", address


def _address(setting: str, text: str) -> Address:
    try:
        return parse_address(text)
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from None


def _place(listeners: Sequence[ListenerConfig], name: str) -> int | None:
    """Return the first listener of a name, or of any, that has no advertised address."""
    return next(
        (
            place
            for place, each in enumerate(listeners)
            if each.advertised is None and name in ("", each.name)
        ),
        None,
    )
