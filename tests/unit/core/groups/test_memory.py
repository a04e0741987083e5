"""The memory that groups may take is one budget over all coordinator partitions."""

import asyncio
from collections.abc import Iterator

import pytest

from broker.core.coordination.partitions import Environment
from broker.core.groups.commands.classic import GroupProtocol, JoinRequest
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import GroupSettings
from broker.model import limits
from broker.model.errors import ErrorCode
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.memory_log import MemoryLog


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_groups_of_different_partitions_share_one_budget(loop: asyncio.AbstractEventLoop) -> None:
    logs: dict[int, MemoryLog] = {}
    groups = GroupCoordinator(
        Environment(
            lambda number: logs.setdefault(number, MemoryLog()),
            loop.create_future,
            ManualClock(),
            lambda _: None,
        ),
        topics=FakeTopics(),
        settings=GroupSettings(
            initial_rebalance_delay_ms=0, memory_bytes_max=6 * limits.GROUP_BYTES
        ),
    )

    def join(group: str) -> ErrorCode:
        protocols = (GroupProtocol("range", b""),)
        request = JoinRequest(group, "", None, "c", "", 10_000, 60_000, "consumer", protocols)
        return groups.join_group(request).result().error

    answers = [join(f"group-{number}") for number in range(10)]

    assert len({groups.partition_for(f"group-{number}") for number in range(10)}) > 2
    assert ErrorCode.NONE in answers
    assert answers[-1] is not ErrorCode.NONE
