"""The topics and partitions that a request names, in steps: a frame may have a million of them."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from broker.core.scheduling.steps import in_parts, in_steps
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Fields, unique

_K = TypeVar("_K")
_V = TypeVar("_V")


async def named_once(items: Iterable[tuple[_K, _V]]) -> dict[_K, _V | None]:
    """Return what a request says of each name, in its order; None: it has the name twice."""
    found: dict[_K, _V | None] = {}
    async for name, value in in_steps(items, NAMES_READ_PER_STEP):
        found[name] = None if name in found else value
    return found


async def answer_partitions(
    topics: list[Fields], answer: Callable[[str, Fields], Fields], *, name: str
) -> list[Fields]:
    """Return the topics of a response, with an answer to each partition of the request, in order.

    `answer` is called with the topic's name, which the field `name` has, and with the fields of the
    partition.
    """
    answers: list[Fields] = [
        {name: topic[name], "partitions": []}
        async for topic in in_steps(topics, NAMES_READ_PER_STEP)
    ]
    named = (
        (answered, wanted)
        for topic, answered in zip(topics, answers, strict=True)
        for wanted in topic["partitions"]
    )
    async for answered, wanted in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        answered["partitions"].append(answer(answered[name], wanted))
    return answers


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
