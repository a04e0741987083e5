"""Entities of quotas in Kafka's messages: pairs of a type and a name, which is null for DEFAULT."""

from collections.abc import Iterable
from typing import TypedDict

from broker.core.security.quotas.entities import DEFAULT, Entity


class EntityFields(TypedDict):
    """One part of an entity."""

    entity_type: str
    entity_name: str | None


def entity_fields(entity: Entity) -> list[EntityFields]:
    """Return the parts of an entity."""
    return [
        {"entity_type": kind, "entity_name": None if name is DEFAULT else name}
        for kind, name in entity.names.items()
    ]


def entity_pairs(parts: Iterable[EntityFields]) -> list[tuple[str, str | None]]:
    """Return the parts as `entity_of` takes them."""
    return [(each["entity_type"], each["entity_name"]) for each in parts]
