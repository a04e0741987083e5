"""DescribeConfigs, v0-4. v1 synonyms and sources; v3 types and documentation; v4 flexible.

All keys of a topic, group or broker are returned, with their defaults, because tools read, change
and write them; for the cluster-wide default (an empty broker name), only keys that were altered.
Keys that are read at the start only are read-only. The keys of a logger resource are loggers, with
levels as values.
"""

from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.session import Session
from broker.model.config import ConfigEntry
from broker.model.errors import RequestError
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP, NAMES_READ_PER_STEP
from broker.protocols.kafka import errors, resources
from broker.protocols.kafka.api import Api, Fields, Request, message, unique
from broker.protocols.kafka.configs import (
    description_fields,
    entry_fields,
    synonym_fields,
)


async def handle(request: Request, session: Session) -> Fields:
    """Describe each resource once, in request order, in steps."""
    wanted: dict[tuple[int, str], Fields] = {}
    async for part in in_parts(request.body["resources"], NAMES_READ_PER_STEP):
        wanted.update(((each["resource_type"], each["resource_name"]), each) for each in part)
    each_in_turn = in_steps(wanted.values(), CONFIGS_DESCRIBED_PER_STEP)
    return {"results": [await _result(request, session, each) async for each in each_in_turn]}


async def _result(request: Request, session: Session, wanted: Fields) -> Fields:
    answer: Fields = {
        "error_code": 0,
        "error_message": None,
        "resource_type": wanted["resource_type"],
        "resource_name": wanted["resource_name"],
        "configs": [],
    }
    try:
        kind = resources.kind(wanted["resource_type"])
        entries = kind.describe(session, wanted["resource_name"])
    except RequestError as error:
        answer["error_code"] = errors.number(error.code)
        answer["error_message"] = message(error)
        return answer
    keys = wanted["configuration_keys"]
    if keys:
        keys = set(await unique(keys))
    answer["configs"] = [
        _config(request, entry) for entry in entries if not keys or entry.name in keys
    ]
    return answer


def _config(request: Request, entry: ConfigEntry) -> Fields:
    fields = {**entry_fields(entry), **description_fields(entry)}
    if request.body["include_synonyms"]:
        fields["synonyms"] = synonym_fields(entry)
    if request.body["include_documentation"]:
        fields["documentation"] = entry.documentation
    return fields


API = Api(32, "DescribeConfigs", range(5), handle)
