"""The quotas of all entities: which one applies to a client, and which match a filter."""

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.security.quotas.entities import DEFAULT, Entity, Name, Values


class Limit(NamedTuple):
    """A quota that applies to a client, and with whom the client shares it."""

    user: str | None  # None: with all users
    client_id: str | None  # None: with all client ids
    bound: float


class QuotaTable:
    """The quotas in force, by entity."""

    def __init__(self) -> None:
        """Begin without quotas."""
        self._values: dict[Entity, Values] = {}

    def __len__(self) -> int:
        """Return for how many entities there are quotas."""
        return len(self._values)

    def __iter__(self) -> Iterator[tuple[Entity, Values]]:
        """Return each entity with its quotas."""
        return iter(self._values.items())

    def set(self, entity: Entity, values: Values) -> None:
        """Replace the quotas of an entity."""
        if values:
            self._values[entity] = values
        else:
            self._values.pop(entity, None)

    def of(self, entity: Entity) -> Values:
        """Return the quotas of an entity."""
        return self._values.get(entity, {})

    def limit_of_client(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the quota that applies to a user with a client id: the most specific one.

        A default counts for each user or client id by itself.
        """
        for entity in _candidates(user, client_id):
            bound = self._values.get(entity, {}).get(key)
            if bound is not None:
                return Limit(
                    None if entity.user is None else user,
                    None if entity.client_id is None else client_id,
                    bound,
                )
        return None

    def limit_of_address(self, key: str, address: str) -> float | None:
        """Return the quota that applies to an address."""
        for name in (address, DEFAULT):
            bound = self._values.get(Entity(ip=name), {}).get(key)
            if bound is not None:
                return bound
        return None


def _candidates(user: str, client_id: str) -> Iterator[Entity]:
    """Return whom a quota of this client may be for, the most specific first."""
    users: tuple[Name, ...] = (user, DEFAULT)
    for each in users:
        yield Entity(each, client_id)
        yield Entity(each, DEFAULT)
        yield Entity(each)
    yield Entity(None, client_id)
    yield Entity(None, DEFAULT)


class Match(NamedTuple):
    """What a filter wants of one type: a name, or (None) any."""

    kind: str
    name: Name | None


def matches(entity: Entity, wanted: list[Match], *, is_strict: bool) -> bool:
    """Return whether an entity has all wanted types, and, strictly, no others."""
    names = entity.names
    if is_strict and len(names) != len(wanted):
        return False
    return all(
        each.kind in names and (each.name is None or names[each.kind] == each.name)
        for each in wanted
    )
