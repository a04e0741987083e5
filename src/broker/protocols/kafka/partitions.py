"""The partitions that a request names, read in steps: a frame may have a million of them."""

from collections.abc import Iterable

from broker.core.scheduling.steps import in_parts
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka.api import Fields, unique


async def unique_partitions(
    topics: list[Fields], *, name: str, partitions: str
) -> list[tuple[str, int]]:
    """Return topic and number of each partition, in request order, without duplicates.

    `name` and `partitions` are the names of the API's fields for these.
    """
    return await unique((topic[name], number) for topic in topics for number in topic[partitions])


async def rows_by_topic(names: Iterable[str]) -> dict[str, list[Fields]]:
    """Return an empty list of rows for each topic, in request order."""
    rows: dict[str, list[Fields]] = {}
    async for part in in_parts(names, NAMES_READ_PER_STEP):
        for name in part:
            rows[name] = []
    return rows


async def topics_of(rows: dict[str, list[Fields]], *, name: str, partitions: str) -> list[Fields]:
    """Return the topics of a response, each with its rows."""
    topics: list[Fields] = []
    async for part in in_parts(rows.items(), NAMES_READ_PER_STEP):
        topics += [{name: topic, partitions: its} for topic, its in part]
    return topics
