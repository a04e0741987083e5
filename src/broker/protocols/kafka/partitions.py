"""The partitions that a request names: as many as fit a frame, so others have turns in between."""

from collections.abc import Iterable

from broker.core.steps import in_parts
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka.api import Fields, once


async def each_once(topics: list[Fields], *, name: str, partitions: str) -> list[tuple[str, int]]:
    """Topic and number of each partition, in the order of the request, none of them twice.

    The fields are called differently from API to API: `name` of a topic, `partitions` in it.
    """
    return await once((topic[name], number) for topic in topics for number in topic[partitions])


async def rows_by_topic(names: Iterable[str]) -> dict[str, list[Fields]]:
    """No rows yet for each topic, in the order of the request."""
    rows: dict[str, list[Fields]] = {}
    async for part in in_parts(names, NAMES_READ_PER_STEP):
        for name in part:
            rows[name] = []
    return rows


async def topics_of(rows: dict[str, list[Fields]], *, name: str, partitions: str) -> list[Fields]:
    """The topics of an answer, each with its rows."""
    topics: list[Fields] = []
    async for part in in_parts(rows.items(), NAMES_READ_PER_STEP):
        topics += [{name: topic, partitions: its} for topic, its in part]
    return topics
