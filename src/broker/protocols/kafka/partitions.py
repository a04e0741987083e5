"""The partitions that a request names: as many as fit a frame, so others have turns in between."""

from broker.core.steps import in_steps
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Fields


async def each_once(topics: list[Fields], *, name: str, partitions: str) -> list[tuple[str, int]]:
    """Topic and number of each partition, in the order of the request, none of them twice.

    The fields are called differently from API to API: `name` of a topic, `partitions` in it.
    """
    named = ((topic[name], number) for topic in topics for number in topic[partitions])
    found: dict[tuple[str, int], None] = {}
    async for place in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        found[place] = None
    return list(found)
