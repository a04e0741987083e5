"""Requests that are long for the loop run in steps: none delays it for more than one of them."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.large_broker import (
    LINES_PER_TURN_MAX,
    LargeBroker,
    LineLoop,
    LongRequest,
    Size,
    requests,
)

SIZE = Size(
    topics=500,
    partitions_per_topic=8,
    groups=1_500,
    members=300,
    offsets=4_000,
    producers=3_000,
    transactional_ids=500,
    named=4_000,
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


@pytest.fixture(scope="module")
def authorizing_broker(loop: LineLoop) -> LargeBroker:
    broker = LargeBroker(SIZE)
    loop.run_until_complete(broker.fill())
    loop.run_until_complete(broker.authorize())
    return broker


def serve(broker: LargeBroker, loop: LineLoop, request_: LongRequest) -> None:
    answer = loop.measure(broker.serve(request_))

    assert len(answer) > request_.answer_bytes_min
    assert max(loop.turns) <= LINES_PER_TURN_MAX


@pytest.mark.parametrize("request_", requests(SIZE), ids=lambda each: each.name)
def test_no_turn_of_the_loop_is_longer_than_a_step(
    broker: LargeBroker, loop: LineLoop, request_: LongRequest
) -> None:
    serve(broker, loop, request_)


@pytest.mark.parametrize("request_", requests(SIZE), ids=lambda each: each.name)
def test_no_turn_is_longer_where_a_client_may_do_only_what_entries_allow(
    authorizing_broker: LargeBroker, loop: LineLoop, request_: LongRequest
) -> None:
    loop.run_until_complete(authorizing_broker.forget_decisions())
    serve(authorizing_broker, loop, request_)


def test_turns_are_no_longer_with_many_concurrent_requests(
    broker: LargeBroker, loop: LineLoop
) -> None:
    """The first step of each is made on arrival, so they arrive in different turns here."""
    names = ("ListOffsets", "OffsetForLeaderEpoch", "ElectLeaders", "Cursus LIST_OFFSETS")
    long = [each for each in requests(SIZE) if each.name in names]

    async def serve_all() -> None:
        serving = []
        for each in long * 4:
            serving.append(asyncio.ensure_future(broker.serve(each)))
            for _ in range(3):
                await asyncio.sleep(0)
        await asyncio.gather(*serving)

    loop.measure(serve_all())

    assert max(loop.turns) <= 2 * LINES_PER_TURN_MAX


def test_concurrent_requests_for_all_topics_share_one_response(
    broker: LargeBroker, loop: LineLoop
) -> None:
    [wanted] = [each for each in requests(SIZE) if each.name == "Metadata of all topics"]

    async def serve(count: int) -> list[bytes]:
        return await asyncio.gather(*(broker.serve(wanted) for _ in range(count)))

    def lines_of(count: int) -> int:
        broker.topics.registry.version += 1  # no cached answer counts
        answers = loop.measure(serve(count))
        assert len(set(answers)) == 1
        return sum(loop.turns)

    assert lines_of(100) < 2 * lines_of(1)
