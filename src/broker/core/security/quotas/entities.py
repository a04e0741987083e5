"""Whom a quota is for, and the values that it may have (KIP-13, 124, 546, 599, 612).

An entity is a user, a client id, both, or an address. Each of these has a name, or is DEFAULT: all
users (client ids, addresses) that have no quota under their own name, each counted by itself. In
the metadata store the name of an entity is its text:

    user=alice                 client-id=reports              ip=10.0.0.1
    user=alice&client-id       (alice with every client id)   ip

Names are percent-encoded, so that `&` and `=` only separate.
"""

import json
import math
from collections.abc import Iterable, Mapping
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from broker.model.errors import ErrorCode, RequestError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_OF_CLIENTS: Final = frozenset(
    (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
)
_OF_ADDRESSES: Final = frozenset((CONNECTION_CREATION_RATE,))
_WHOLE: Final = frozenset((PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE))
_WHOLE_TOLERANCE: Final = 1e-6  # as in Kafka, whose values are doubles on the wire


class Default(Enum):
    """In place of a name: all those without a quota of their own."""

    DEFAULT = "default"


DEFAULT: Final = Default.DEFAULT
Name: TypeAlias = str | Default


class Entity(NamedTuple):
    """Whom a quota is for; None: the type does not matter."""

    user: Name | None = None
    client_id: Name | None = None
    ip: Name | None = None

    @property
    def names(self) -> dict[str, Name]:
        """The name of each type that matters."""
        pairs = zip(TYPES, self, strict=True)
        return {kind: name for kind, name in pairs if name is not None}

    def __str__(self) -> str:
        """The text of the entity."""
        return "&".join(
            kind if name is DEFAULT else f"{kind}={quote(name, safe='')}"
            for kind, name in self.names.items()
        )


Values: TypeAlias = Mapping[str, float]  # by the key of each quota
Changes: TypeAlias = Mapping[str, float | None]  # likewise; None: removed


def parse_entity(text: str) -> Entity:
    """Return the entity of a text; RequestError if it is none."""
    pairs = [part.partition("=") for part in text.split("&")]
    return entity_of((kind, unquote(name) if equals else None) for kind, equals, name in pairs)


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity of (type, name) pairs; a name of None is DEFAULT. Raises RequestError."""
    names: dict[str, Name] = {}
    for kind, name in parts:
        if kind in names:
            raise _invalid(f"the entity names its {kind} twice")
        if kind not in TYPES:
            raise _invalid(f"entity type {kind!r:.100} is not one of {', '.join(TYPES)}")
        if name == "":
            raise _invalid(f"an empty {kind} has no quota")
        names[kind] = DEFAULT if name is None else name
    if not names:
        raise _invalid("a quota is for a user, a client id or an address: the entity is empty")
    if IP in names and len(names) > 1:
        raise _invalid("an address is not combined with a user or a client id")
    ip = names.get(IP)
    return Entity(names.get(USER), names.get(CLIENT_ID), ip and _address(ip))


def _address(name: Name) -> Name:
    """Return an address in its usual form."""
    if name is DEFAULT:
        return name
    try:
        return str(ip_address(name))
    except ValueError:
        raise _invalid(f"{name!r:.100} is no IP address (names of hosts are not looked up)") from (
            None
        )


def check_changes(entity: Entity, changes: Changes) -> None:
    """Raise RequestError if an entity has no such quotas, or not with these values."""
    for key, value in changes.items():
        _check_value(entity, key, value)


def _check_value(entity: Entity, key: str, value: float | None) -> None:
    if key not in (_OF_CLIENTS if entity.ip is None else _OF_ADDRESSES):
        raise _invalid(f"quota {key!r:.100} does not exist for {', '.join(entity.names)}")
    if value is None:
        return
    if not (math.isfinite(value) and value > 0):
        raise _invalid(f"{key} is a number above 0")
    if key in _WHOLE and abs(value - math.floor(value + _WHOLE_TOLERANCE)) > _WHOLE_TOLERANCE:
        raise _invalid(f"{key} is a whole number")


def to_json(values: Values) -> bytes:
    """Return what is stored of an entity's quotas."""
    return json.dumps({"version": 1, "quotas": dict(values)}, sort_keys=True).encode()


def from_json(stored: bytes) -> dict[str, float]:
    """Return the quotas of an entity; ValueError for anything but what `to_json` returns."""
    match json.loads(stored):
        case {"version": 1, "quotas": dict(values)}:
            return {str(key): _stored_number(value) for key, value in values.items()}
    raise ValueError(f"not an entity's quotas: {stored!r:.200}")


def _stored_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{value!r:.100} is no quota")
    return float(value)


def _invalid(text: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, text)
