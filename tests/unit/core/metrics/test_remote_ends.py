"""Ends of partitions that others lead: asked for beside the pages, and not shown for ever."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from broker.codec import Fields
from broker.core.metrics import limits
from broker.core.metrics.remote_ends import RemoteEnd, RemoteEnds
from broker.model.errors import Unreachable
from tests.support.manual_clock import ManualClock

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
LATEST, EARLIEST = -1, -2
NOT_LEADER = 6


class Leaders:
    """The other brokers, each of which leads the partitions of one topic.

    Attributes:
        records: offsets and timestamps of the records of each partition.
        asked: the partitions of each request, and its timestamps.
        silent: brokers that do not answer.
    """

    def __init__(self) -> None:
        self.leaders = {"two": 2, "three": 3, "own": 1, "nobody": -1}
        self.records: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.asked: list[tuple[int, int, set[int]]] = []
        self.silent: set[int] = set()
        self.clock = ManualClock(NOW_MS)
        self.ends = RemoteEnds(1, lambda topic, _: self.leaders.get(topic), self, self.clock)

    async def call(
        self, broker_id: int, api: str, versions: range, body: Fields, *, timeout_seconds: float
    ) -> tuple[int, dict[str, Any]]:
        assert (api, body["replica_id"], body["isolation_level"]) == ("ListOffsets", -1, 0)
        assert timeout_seconds == limits.REMOTE_ENDS_ANSWER_SECONDS
        assert 5 in versions
        await asyncio.sleep(0)
        if broker_id in self.silent:
            self.asked.append((broker_id, 0, set()))
            raise Unreachable("planted")
        rows = [each for topic in body["topics"] for each in topic["partitions"]]
        self.asked.append((broker_id, len(rows), {each["timestamp"] for each in rows}))
        topics = [
            {
                "name": topic["name"],
                "partitions": [self._row(topic["name"], each) for each in topic["partitions"]],
            }
            for topic in body["topics"]
        ]
        return 5, {"topics": [*topics, {"name": "other", "partitions": [self._found(0, 7, 7)]}]}

    def _row(self, topic: str, asked: Mapping[str, int]) -> dict[str, int]:
        number, timestamp = asked["partition_index"], asked["timestamp"]
        records = self.records.get((topic, number))
        if records is None:
            return self._found(number, -1, -1) | {"error_code": NOT_LEADER}
        if timestamp == EARLIEST:
            return self._found(number, records[0][0], -1)
        if timestamp == LATEST:
            return self._found(number, records[-1][0] + 1, -1)
        found = next((each for each in records if each[1] >= timestamp), (-1, -1))
        return self._found(number, *found)

    @staticmethod
    def _found(number: int, offset: int, timestamp: int) -> dict[str, int]:
        row = {"partition_index": number, "error_code": 0, "leader_epoch": 0}
        return row | {"offset": offset, "timestamp": timestamp}

    def page(self, *places: tuple[str, int]) -> list[RemoteEnd | None]:
        """Make a page, as in a running loop."""
        self.ends.begin()
        found = [self.ends.find(*each) for each in places]
        self.ends.end()
        return found


async def seen(leaders: Leaders, *places: tuple[str, int]) -> list[tuple[int, int] | None]:
    """Return starts and ends on a page after a look."""
    leaders.page(*places)
    await leaders.ends.look()
    return [None if each is None else (each.start, each.end) for each in leaders.page(*places)]


def test_each_leader_is_asked_for_what_a_page_wants() -> None:
    async def run() -> None:
        leaders = Leaders()
        leaders.records = {
            ("two", 0): [(5, NOW_MS), (8, NOW_MS)],
            ("two", 1): [(0, NOW_MS)],
            ("three", 0): [(1, NOW_MS)],
        }
        places = ("two", 0), ("two", 1), ("three", 0), ("two", 9), ("own", 0), ("nobody", 0)
        assert leaders.page(*places, ("gone", 0)) == [None] * 7
        assert leaders.asked == [], "a page does not wait"

        assert await seen(leaders, *places) == [(5, 9), (0, 1), (1, 2), None, None, None]
        assert {broker_id for broker_id, *_ in leaders.asked} == {2, 3}

    asyncio.run(run())


def test_what_no_page_wants_is_not_asked_for() -> None:
    async def run() -> None:
        leaders = Leaders()
        leaders.records = {("two", 0): [(0, NOW_MS)], ("three", 0): [(0, NOW_MS)]}
        await seen(leaders, ("two", 0), ("three", 0))
        leaders.page(("two", 0))
        leaders.page(("two", 0))
        leaders.asked.clear()

        assert await seen(leaders, ("two", 0)) == [(0, 1)]

        assert {broker_id for broker_id, *_ in leaders.asked} == {2}

    asyncio.run(run())


def test_what_a_leader_has_told_long_ago_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        leaders = Leaders()
        leaders.records = {("two", 0): [(0, NOW_MS)], ("three", 0): [(0, NOW_MS)]}
        places = ("two", 0), ("three", 0)
        assert await seen(leaders, *places) == [(0, 1), (0, 1)]

        leaders.silent = {2}
        assert await seen(leaders, *places) == [(0, 1), (0, 1)], "it was told a moment ago"
        monkeypatch.setattr(limits, "REMOTE_ENDS_STALE_SECONDS", 0.0)
        [two, three] = leaders.page(*places)
        assert two is three is None
        monkeypatch.setattr(limits, "REMOTE_ENDS_STALE_SECONDS", 45.0)
        leaders.silent = set()
        assert await seen(leaders, *places) == [(0, 1), (0, 1)]

    asyncio.run(run())


def test_requests_and_partitions_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMOTE_ENDS_PER_STEP", 10)
    monkeypatch.setattr(limits, "REMOTE_ENDS_MAX", 25)

    async def run() -> None:
        leaders = Leaders()
        places = [("two", number) for number in range(30)]
        leaders.records = {place: [(0, NOW_MS)] for place in places}

        assert await seen(leaders, *places) == [(0, 1)] * 25 + [None] * 5
        assert max(rows for _, rows, _ in leaders.asked) == 10

        leaders.asked.clear()
        leaders.silent = {2}
        await leaders.ends.look()
        assert len(leaders.asked) == 1, "who does not answer is asked once"

    asyncio.run(run())


def test_times_are_those_of_ends_that_the_leader_names_and_of_those_that_were_seen() -> None:
    async def run() -> None:
        leaders = Leaders()
        ages = [30 * DAY_MS, 2 * DAY_MS, 20 * MINUTE_MS, MINUTE_MS]
        records = [(offset, NOW_MS - age) for offset, age in enumerate(ages)]
        leaders.records = {("two", 0): records, ("two", 1): records[:2]}
        places = ("two", 0), ("two", 1)
        for _ in range(8):
            await seen(leaders, *places)

        [two, old] = leaders.page(*places)
        assert two is not None
        assert old is not None
        assert [NOW_MS - two.times.time_ms(each) for each in range(4)] == ages
        assert [NOW_MS - old.times.time_ms(each) for each in range(2)] == ages[:2]
        asked = [timestamps for *_, timestamps in leaders.asked]
        assert len([each for each in asked if each not in ({LATEST}, {EARLIEST})]) == 6

        leaders.clock.advance(10_000)
        records.append((4, NOW_MS + 10_000))
        await seen(leaders, *places)
        assert two.end == 5
        assert two.times.time_ms(4) == NOW_MS

    asyncio.run(run())


def test_a_topic_that_was_made_again_has_new_times() -> None:
    async def run() -> None:
        leaders = Leaders()
        leaders.records = {("two", 0): [(0, NOW_MS - DAY_MS), (9, NOW_MS)]}
        await seen(leaders, ("two", 0))
        leaders.records = {("two", 0): [(0, NOW_MS - 1_000), (1, NOW_MS)]}

        await seen(leaders, ("two", 0))

        [found] = leaders.page(("two", 0))
        assert found is not None
        assert found.times.time_ms(0) == NOW_MS - 1_000
        assert found.times.time_ms(1) == NOW_MS - 500, "that of an offset between it and the end"

    asyncio.run(run())


def test_leaders_are_asked_while_pages_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMOTE_ENDS_SECONDS", 0.0)

    async def run() -> None:
        leaders = Leaders()
        leaders.records = {("two", 0): [(0, NOW_MS)]}
        running = asyncio.ensure_future(leaders.ends.run())
        for _ in range(10):
            await asyncio.sleep(0)
        assert leaders.asked == []

        leaders.page(("two", 0))
        while len(leaders.asked) < 20:
            await asyncio.sleep(0)
        monkeypatch.setattr(limits, "REMOTE_ENDS_WANTED_SECONDS", 0.0)
        for _ in range(10):
            await asyncio.sleep(0)
        asked = len(leaders.asked)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(leaders.asked) == asked
        assert leaders.page(("two", 0)) == [None], "it is forgotten"
        running.cancel()

    asyncio.run(run())
