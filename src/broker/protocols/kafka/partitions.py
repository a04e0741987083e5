"""The topics and partitions that a request names, in steps: a frame may have a million of them."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from broker.core.scheduling.steps import in_parts, in_steps
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import unique

_RowT = TypeVar("_RowT")
_TopicT = TypeVar("_TopicT")
_WantedT = TypeVar("_WantedT")

_K = TypeVar("_K")
_V = TypeVar("_V")


async def named_once(items: Iterable[tuple[_K, _V]]) -> dict[_K, _V | None]:
    """Return what a request says of each name, in its order; None: it has the name twice."""
    found: dict[_K, _V | None] = {}
    async for name, value in in_steps(items, NAMES_READ_PER_STEP):
        found[name] = None if name in found else value
    return found


async def answer_partitions(
    topics: Iterable[tuple[str, Iterable[_WantedT]]],
    answer: Callable[[str, _WantedT], _RowT],
    topic: Callable[[str, list[_RowT]], _TopicT],
) -> list[_TopicT]:
    """Return the topics of a response, with an answer to each partition of the request, in order.

    `answer` is called with the topic's name and what the request says of the partition; `topic`
    makes a topic from its name and the answers.
    """
    rows: list[tuple[str, Iterable[_WantedT], list[_RowT]]] = [
        (name, wanted, []) async for name, wanted in in_steps(topics, NAMES_READ_PER_STEP)
    ]
    named = ((name, each, answers) for name, wanted, answers in rows for each in wanted)
    async for name, each, answers in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        answers.append(answer(name, each))
    return [topic(name, answers) async for name, _, answers in in_steps(rows, NAMES_READ_PER_STEP)]


async def unique_partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> list[tuple[str, int]]:
    """Return topic and number of each partition, in request order, without duplicates."""
    return await unique((name, number) for name, numbers in topics for number in numbers)


async def rows_by_topic(names: Iterable[str]) -> dict[str, list[_RowT]]:
    """Return an empty list of rows for each topic, in request order."""
    rows: dict[str, list[_RowT]] = {}
    async for part in in_parts(names, NAMES_READ_PER_STEP):
        for name in part:
            rows[name] = []
    return rows


async def topics_of(
    rows: dict[str, list[_RowT]], topic: Callable[[str, list[_RowT]], _TopicT]
) -> list[_TopicT]:
    """Return the topics of a response; `topic` makes one from its name and its rows."""
    topics: list[_TopicT] = []
    async for part in in_parts(rows.items(), NAMES_READ_PER_STEP):
        topics += [topic(name, its) for name, its in part]
    return topics
