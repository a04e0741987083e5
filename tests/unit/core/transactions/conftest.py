"""A broker for the tests of transactions."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.core.transactions.broker import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    broker = Broker(loop)
    broker.recover()
    yield broker
    loop.close()
