"""CreateTopic where the disk has failed."""

import asyncio
from collections.abc import Awaitable

from broker.protocols.rustlog.dispatch import RustLog
from tests.support.fakes import FakeBroker
from tests.support.rustlog_client import create_topic, read_error


def test_a_topic_that_cannot_be_stored_is_refused_and_the_connection_stays_open() -> None:
    broker = FakeBroker()
    broker.store.is_broken = True

    async def answer() -> bytes:
        reply = RustLog().handle(0, 0, None, create_topic("new", 3), broker.session)
        assert isinstance(reply, Awaitable)
        answered = await reply
        assert isinstance(answered, bytes), "nothing is closed"
        return answered

    said = read_error(asyncio.run(answer()))

    assert said == (
        500,
        "Failed to create topic: the partition is offline: its disk has failed or is full",
    )
