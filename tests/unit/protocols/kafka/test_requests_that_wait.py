"""Waiting requests do not delay others, and the memory that they hold is limited."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.codec import schema
from broker.core.session import Session
from broker.model import limits
from broker.protocols.kafka.dispatch import Kafka
from tests.support.fakes import FakeBroker, batch

FETCH = 1
METADATA = 3
LONG_MS = 300_000
SOON = 100  # turns of the loop
LONG = 10_000  # partitions: a few such requests fill the whole budget
ALL_TURNS = 10_000
fetch_versions = pytest.mark.parametrize("version", [0, 2, 3, 4, 11, 12])


class Asked:
    """A broker, and requests to it in progress."""

    def __init__(self, broker: FakeBroker) -> None:
        """Begin with none."""
        self.broker = broker
        self.protocol = Kafka()
        self.tasks: list[asyncio.Future[Any]] = []

    def ask(self, key: int, version: int, **fields: Any) -> asyncio.Future[Any]:
        """Let one connection send a request."""
        body = schema.request(key).encode(version, fields)
        session = Session(self.broker.broker, "127.0.0.1", "broker.example", 9092)
        reply = self.protocol.handle(key, version, "tester", body, session)
        if isinstance(reply, Awaitable):
            self.tasks.append(asyncio.ensure_future(reply))
        else:
            self.tasks.append(asyncio.get_running_loop().create_future())
            self.tasks[-1].set_result(reply)
        return self.tasks[-1]

    def poll(self, version: int, count: int) -> asyncio.Future[Any]:
        """Let a request wait for the next record of a partition that it names that often."""
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": "a", "partitions": [wanted] * count}]
        fields = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics}
        return self.ask(FETCH, version, session_epoch=-1, **fields)

    async def end(self) -> None:
        """Cancel all remaining requests."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def played(scenario: Callable[[Asked], Awaitable[None]]) -> None:
    broker = FakeBroker()
    broker.create("a")

    async def play() -> None:
        asked = Asked(broker)
        try:
            await scenario(asked)
        finally:
            await asked.end()

    asyncio.run(play())


async def turns(count: int, until: Callable[[], bool] = lambda: False) -> None:
    for _ in range(count):
        if until():
            return
        await asyncio.sleep(0)


@fetch_versions
def test_long_polls_do_not_delay_other_long_requests(version: int) -> None:
    async def scenario(asked: Asked) -> None:
        for _ in range(5):
            asked.poll(version, LONG)
        await turns(ALL_TURNS)

        names = [{"name": f"some-longer-name-of-topic-{n}"} for n in range(60)]
        other = asked.ask(METADATA, 4, topics=names, allow_auto_topic_creation=False)
        await turns(SOON, other.done)

        assert other.done()

    played(scenario)


@fetch_versions
def test_long_polls_end_when_records_arrive(version: int) -> None:
    async def scenario(asked: Asked) -> None:
        poll = asked.poll(version, 100)
        await turns(SOON)
        assert not poll.done()

        asked.broker.log("a").append(batch())

        await turns(ALL_TURNS, poll.done)
        assert poll.done()

    played(scenario)


@fetch_versions
def test_polls_above_the_memory_limit_are_answered_with_the_available_records(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARKED_REQUESTS_BYTES_MAX", 1 << 20)

    async def scenario(asked: Asked) -> None:
        small = asked.poll(version, 1)
        polls = [asked.poll(version, 300) for _ in range(10)]
        await turns(ALL_TURNS, lambda: sum(each.done() for each in polls) >= 7)

        assert sum(each.done() for each in polls) in range(5, 10)
        assert not small.done(), "it keeps little memory"
        answered = next(each for each in polls if each.done())
        value, _ = schema.response(FETCH).decode(version, answered.result())
        parts = value["responses"][0]["partitions"]
        assert [each["error_code"] for each in parts] == [0] * 300

    played(scenario)


def test_short_polls_count_towards_the_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PARKED_REQUESTS_BYTES_MAX", 1 << 16)

    async def scenario(asked: Asked) -> None:
        polls = [asked.poll(3, 10) for _ in range(30)]
        assert len(schema.request(FETCH).encode(3, {})) < limits.SHORT_REQUEST_BYTES
        await turns(SOON)

        assert 0 < sum(each.done() for each in polls) < 30

    played(scenario)


@fetch_versions
def test_a_poll_that_is_answered_at_once_to_free_memory_holds_none(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARKED_REQUESTS_BYTES_MAX", 1)

    async def scenario(asked: Asked) -> None:
        for _ in range(3):
            await asked.poll(version, 1)

        assert asked.protocol._admission._parking.bytes == 0

    played(scenario)
