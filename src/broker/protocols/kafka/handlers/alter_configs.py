"""AlterConfigs, v0-2. v1 throttle time; v2 flexible. Deprecated for IncrementalAlterConfigs.

The keys of a request become the topic's whole own configuration: what is not named goes back to
the broker's value (KIP-133), so tools read all, change one and write all.
"""

from collections.abc import Mapping

from broker.core.session import Session
from broker.core.topics import ConfigChange
from broker.model.topic_config import TopicConfig
from broker.protocols.kafka.alterations import alter, check_values
from broker.protocols.kafka.api import Api, Fields, Request


async def handle(request: Request, session: Session) -> Fields:
    """Replace the configuration of each topic."""
    return await alter(request, session, _replacement)


def _replacement(configs: list[Fields]) -> ConfigChange:
    check_values(configs)
    own = {each["name"]: each["value"] for each in configs}

    def replace(_now: TopicConfig) -> Mapping[str, str]:
        return own

    return replace


API = Api(33, "AlterConfigs", range(3), handle)
