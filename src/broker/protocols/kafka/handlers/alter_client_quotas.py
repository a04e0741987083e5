"""AlterClientQuotas, v0-1. v1 flexible (KIP-546).

Each entity is altered completely or not at all; an invalid one does not affect the others. One that
the request names twice is not altered. Valid ones are stored some at a time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.quotas.entities import (
    Changes,
    Entity,
    check_changes,
    entity_of,
)
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.model.security_limits import QUOTA_ENTITIES_PER_STEP, QUOTAS_PER_TRANSACTION
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.quota_entities import entity_pairs

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.AlterClientQuotasRequest]", session: Session
) -> "bodies.AlterClientQuotasResponse":
    """Alter the quotas of each entity."""
    entries = request.body["entries"]
    times: Counter[frozenset[tuple[str, str | None]]] = Counter()
    async for each in in_steps(entries, NAMES_READ_PER_STEP):
        times[frozenset(entity_pairs(each["entity"]))] += 1
    try:
        access.check_cluster(session, Operation.ALTER_CONFIGS)
    except RequestError as error:
        return await _results(entries, dict.fromkeys(range(len(entries)), error))
    refusals: dict[int, RequestError] = {}  # by the place of the entry
    wanted: dict[int, tuple[Entity, Changes]] = {}
    async for place, entry in in_steps(enumerate(entries), QUOTA_ENTITIES_PER_STEP):
        try:
            if times[frozenset(entity_pairs(entry["entity"]))] > 1:
                raise _invalid("the request names this entity twice")
            wanted[place] = _alteration(entry)
        except RequestError as error:
            refusals[place] = error
    if not request.body["validate_only"]:
        async for part in in_parts(wanted, QUOTAS_PER_TRANSACTION):
            try:
                await _alter(session, dict(wanted[place] for place in part))
            except RequestError as error:
                refusals.update(dict.fromkeys(part, error))
    return await _results(entries, refusals)


async def _results(
    entries: "Iterable[bodies.AlterClientQuotasRequestEntry]", refusals: Mapping[int, RequestError]
) -> "bodies.AlterClientQuotasResponse":
    results: list[bodies.AlterClientQuotasResponseEntry] = [
        {**outcome(refusals.get(place)), "entity": entry["entity"]}
        async for place, entry in in_steps(enumerate(entries), NAMES_READ_PER_STEP)
    ]
    return {"entries": results}


def _alteration(entry: "bodies.AlterClientQuotasRequestEntry") -> tuple[Entity, Changes]:
    entity = entity_of(entity_pairs(entry["entity"]))
    changes = {each["key"]: None if each["remove"] else each["value"] for each in entry["ops"]}
    if len(changes) < len(entry["ops"]):
        raise _invalid("the request names a quota of this entity twice")
    check_changes(entity, changes)
    return entity, changes


async def _alter(session: Session, alterations: Mapping[Entity, Changes]) -> None:
    quotas = session.broker.security.quotas
    if quotas is None:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, "this broker has no quotas")
    await quotas.alter(alterations)


def _invalid(text: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, text)


API = Api(
    49,
    "AlterClientQuotas",
    range(2),
    handle,
    on_each(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
)
