"""DescribeConfigs, v0-4. v1 synonyms and sources; v3 types and documentation; v4 flexible.

All keys of a topic, group or broker are returned, with their defaults, because tools read, change
and write them; for the cluster-wide default (an empty broker name), only keys that were altered.
Keys that are read at the start only are read-only. The keys of a logger resource are loggers, with
levels as values.
"""

from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP, NAMES_READ_PER_STEP
from broker.protocols.kafka import resources
from broker.protocols.kafka.api import Api, Request, outcome, unique
from broker.protocols.kafka.configs import description_fields
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.model.config import ConfigEntry


async def handle(
    request: "Request[bodies.DescribeConfigsRequest]", session: Session
) -> "bodies.DescribeConfigsResponse":
    """Describe each resource once, in request order, in steps."""
    wanted: dict[tuple[int, str], bodies.DescribeConfigsRequestResource] = {}
    async for part in in_parts(request.body["resources"], NAMES_READ_PER_STEP):
        wanted.update(((each["resource_type"], each["resource_name"]), each) for each in part)
    each_in_turn = in_steps(wanted.values(), CONFIGS_DESCRIBED_PER_STEP)
    return {"results": [await _result(request, session, each) async for each in each_in_turn]}


async def _result(
    request: "Request[bodies.DescribeConfigsRequest]",
    session: Session,
    wanted: "bodies.DescribeConfigsRequestResource",
) -> "bodies.DescribeConfigsResponseResult":
    refusal = None
    entries: list[ConfigEntry] = []
    try:
        kind = resources.kind(wanted["resource_type"])
        kind.check(session, Operation.DESCRIBE_CONFIGS, wanted["resource_name"])
        entries = kind.describe(session, wanted["resource_name"])
    except RequestError as error:
        refusal = error
    keys = set(await unique(wanted["configuration_keys"] or ()))
    configs = [
        description_fields(
            entry,
            has_synonyms=request.body["include_synonyms"],
            has_documentation=request.body["include_documentation"],
        )
        for entry in entries
        if not keys or entry.name in keys
    ]
    return {
        **outcome(refusal),
        "resource_type": wanted["resource_type"],
        "resource_name": wanted["resource_name"],
        "configs": configs,
    }


API = Api(
    32,
    "DescribeConfigs",
    range(5),
    handle,
    on_each(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.GROUP
    ),
)
