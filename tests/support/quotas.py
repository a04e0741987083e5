"""Quotas of a running broker, set by a raw Kafka client."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.wire_client import WireClient

Entity = Mapping[str, str | None]  # by type; None: the default


def alter(client: WireClient, *entities: Entity, **values: float | None) -> list[int]:
    """Set the same quotas of each entity, or remove those of None; return the error codes."""
    ops = [
        {"key": key, "value": value or 0.0, "remove": value is None}
        for key, value in values.items()
    ]
    entries = [{"entity": parts(entity), "ops": ops} for entity in entities]
    answer = client.request("AlterClientQuotas", 1, {"entries": entries, "validate_only": False})
    return [each["error_code"] for each in answer["entries"]]


def parts(entity: Entity) -> list[dict[str, Any]]:
    """Return an entity as a request has it."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]


def described(
    client: WireClient,
    components: Iterable[tuple[str, int, str | None]] = (),
    *,
    strict: bool = False,
) -> dict[str, dict[str, float]]:
    """Return the quotas of all entities that match (type, match type, name), by their parts."""
    wanted = [
        {"entity_type": kind, "match_type": match_type, "match": name}
        for kind, match_type, name in components
    ]
    answer = client.request("DescribeClientQuotas", 1, {"components": wanted, "strict": strict})
    assert answer["error_code"] == 0
    return {
        ",".join(f"{each['entity_type']}={each['entity_name']}" for each in entry["entity"]): {
            each["key"]: each["value"] for each in entry["values"]
        }
        for entry in answer["entries"]
    }
