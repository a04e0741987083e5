"""The pages of a large broker: made in steps, once for all who ask, and kept for a moment only."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.cluster_view import Alone, Leadership
from broker.core.maintenance.disk_space import Space
from broker.core.metrics import limits, pages
from broker.core.metrics.collect import Collector, Sources
from broker.core.metrics.counters import Counters
from broker.core.metrics.pages import Pages
from broker.core.metrics.registry import METRICS
from broker.core.topics.rules import NewTopic
from broker.core.topics.topic import Topic
from tests.support.large_broker import LINES_PER_TURN_MAX, LargeBroker, LineLoop, Size

ERRORS = "polylog_request_errors_total"
SIZE = Size(
    topics=300,
    partitions_per_topic=8,
    groups=300,
    members=1,
    offsets=4_000,
    producers=1,
    transactional_ids=200,
    named=4_000,
)
TIMES = ((0,) * 20, 0)
FETCH = 1
FETCH_OF_REPLICAS = 128
METERS = [
    (key, ((1,), errors, TIMES, TIMES, TIMES, TIMES))
    for key, errors in ((FETCH, {25: 2, 70: 1}), (FETCH_OF_REPLICAS, {25: 4}))
]


def sources() -> Sources:
    """Return sources without values of interest."""
    poller = SimpleNamespace(
        send_times=TIMES,
        turn=SimpleNamespace(sync_times=TIMES, waiting_writes=0),
        parked=0,
        polls=0,
        bytes_received=0,
        bytes_sent=0,
        rests=0,
        rest_ms=0,
    )
    kafka = SimpleNamespace(request_meters=lambda: METERS, requests=0)
    return Sources(
        cast("Any", poller),
        cast("Any", {"kafka": kafka}),
        {1: "Fetch"},
        {25: "UNKNOWN_MEMBER_ID"},
        lambda: (0, False),
        lambda: 0,
        lambda: ("/", Space(1, 1, 1, 1), 0),
        dict,
        lambda: (0, 0),
        lambda: "1",
    )


@pytest.fixture(scope="module")
def loop() -> Iterator[LineLoop]:
    loop = LineLoop()
    yield loop
    loop.end()


@pytest.fixture(scope="module")
def broker(loop: LineLoop) -> LargeBroker:
    broker = LargeBroker(SIZE)
    loop.run_until_complete(broker.fill())
    return broker


def whole(loop: LineLoop, made: Pages) -> bytes:
    return b"".join(loop.run_until_complete(made.page(is_all=True, is_open=False)).parts)


def pages_of(broker: LargeBroker, monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.setattr(pages, "PAGE_SECONDS", 0.01)
    # The histograms are not of interest, and those of these sources have no true shape.
    monkeypatch.setattr(
        pages, "METRICS", {n: each for n, each in METRICS.items() if "_seconds" not in n}
    )
    return Pages(Collector(broker.broker, Counters(), sources()))


@pytest.mark.parametrize("is_all", [False, True])
def test_no_turn_of_the_loop_is_longer_than_a_step(
    broker: LargeBroker,
    loop: LineLoop,
    monkeypatch: pytest.MonkeyPatch,
    is_all: bool,
) -> None:
    made = pages_of(broker, monkeypatch)

    page = b"".join(loop.measure(made.page(is_all=is_all, is_open=False)).parts)

    assert max(loop.turns) <= LINES_PER_TURN_MAX
    assert sum(loop.turns) > 2 * LINES_PER_TURN_MAX, "it is long enough for steps"
    partitions = b'\npolylog_log_end_offset{topic="wide"'
    assert page.count(partitions) == (SIZE.named if is_all else 0)
    offsets = b'\npolylog_group_lag_records{group="reader"'
    assert page.count(offsets) == (SIZE.offsets if is_all else 0)


def test_members_of_each_type_of_group_are_counted(
    broker: LargeBroker, loop: LineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pages_of(broker, monkeypatch)
    page = whole(loop, made)

    assert b'\npolylog_group_members{group="consumers"} 1\n' in page
    assert b'\npolylog_group_rebalances_total{group="consumers"} ' in page
    assert b'\npolylog_group_members{group="members"} 1\n' in page


def test_errors_of_native_paths_and_of_python_are_added_by_api(
    broker: LargeBroker, loop: LineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SECONDS", 0.01)
    monkeypatch.setattr(pages, "METRICS", {ERRORS: METRICS[ERRORS]})
    counters = Counters()
    counters.errors[FETCH][25] = 8
    counters.errors[99][-1] = 1
    made = Pages(Collector(broker.broker, counters, sources()))

    page = whole(loop, made).decode().splitlines()

    assert f'{ERRORS}{{api="Fetch",error="UNKNOWN_MEMBER_ID"}} 14' in page
    assert f'{ERRORS}{{api="Fetch",error="70"}} 1' in page
    assert f'{ERRORS}{{api="99",error="-1"}} 1' in page


class Moving(Alone):
    """A cluster in which a replica is added to each partition."""

    def __init__(self) -> None:
        super().__init__(1, None)
        self.isr: tuple[int, ...] = (1, 2, 3)

    def leadership(self, _topic: Topic, _partition: int) -> Leadership:
        return Leadership(1, 0, (1, 2, 3, 4), self.isr, adding=(4,))


def test_a_replica_that_is_being_added_is_not_missed(broker: LargeBroker, loop: LineLoop) -> None:
    cluster = Moving()
    moving = broker.broker._replace(cluster=cluster)
    collector = Collector(moving, Counters(), sources())

    def missed() -> bool:
        values = loop.run_until_complete(collector.collect(is_all=False))
        found = values["polylog_under_replicated_partitions"][0].value
        assert found in {0, values["polylog_leaders"][0].value}
        return found != 0

    assert not missed()
    cluster.isr = (1, 2)
    assert missed()


def test_those_who_ask_at_once_get_one_page_and_it_is_forgotten(
    broker: LargeBroker, loop: LineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pages_of(broker, monkeypatch)

    async def ask() -> None:
        first, second = await asyncio.gather(
            *(made.page(is_all=True, is_open=False) for _ in range(2))
        )
        assert first is second
        await asyncio.sleep(0.1)
        assert not made._made

    loop.run_until_complete(ask())


def test_what_has_no_series_is_counted(
    broker: LargeBroker, loop: LineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARTITION_SERIES_MAX", 10)
    monkeypatch.setattr(limits, "GROUP_SERIES_MAX", 10)
    monkeypatch.setattr(limits, "TOPIC_SERIES_MAX", 10)
    made = pages_of(broker, monkeypatch)

    page = whole(loop, made).decode()

    assert page.count("\npolylog_log_end_offset{") == 10
    assert page.count("\npolylog_topic_records_in_total{") == 11, "and the sum of the others"
    left = dict(
        each.removeprefix("polylog_metrics_left_out").split()
        for each in page.splitlines()
        if each.startswith("polylog_metrics_left_out")
    )
    assert int(left['{family="partitions"}']) > SIZE.named
    assert int(left['{family="groups"}']) > SIZE.offsets - 20


def test_the_totals_of_a_broker_do_not_fall_when_a_topic_is_deleted(
    broker: LargeBroker, loop: LineLoop
) -> None:
    collector = Collector(broker.broker, Counters(), sources())

    async def records() -> float:
        values = await collector.collect(is_all=False)
        value = values["polylog_records_in_total"][0].value
        assert not isinstance(value, tuple)
        return value

    async def delete() -> None:
        topic = await broker.topics.create(NewTopic("short-lived", 1))
        log = cast("Any", topic.held_log(0))
        before = await records()
        log.records_in = 7
        assert await records() == before + 7
        await broker.topics.delete(topic)
        assert await records() == before + 7

    loop.run_until_complete(delete())
