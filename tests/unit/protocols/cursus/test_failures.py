"""Errors of a broker that cannot serve: loading logs, failed disks, no coordinator."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.core.groups.commands.assigned import AssignedError, AssignedResponse
from broker.core.groups.commands.offsets import FetchOffsetsResponse
from broker.model.errors import ErrorCode
from broker.protocols.base import Answer
from broker.protocols.cursus.dispatch import PROTOCOL
from tests.support.cursus_client import Message, batch
from tests.support.fakes import FakeBroker

HERE = "broker.example:9092"
SENT = [Message(b"m", 1, b"p", epoch=7)]


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("t", 2)
    return broker


def ask(broker: FakeBroker, body: str | bytes) -> str:
    """Send one frame; the text of its answer."""
    content = body.encode() if isinstance(body, str) else body

    async def answered() -> Any:
        answer = PROTOCOL().handle(0, 0, None, content, broker.session)
        return await answer if isinstance(answer, Awaitable) else answer

    answer = asyncio.run(answered())
    if isinstance(answer, Answer):
        answer = answer.body
    assert isinstance(answer, bytes)
    return answer.decode()


@pytest.mark.parametrize(
    "body",
    [
        batch("t", 0, SENT),
        "PUBLISH topic=t partition=0 producerId=p message=m",
        "LIST_OFFSETS topic=t",
    ],
)
def test_a_loading_partition_names_this_broker_as_leader(
    broker: FakeBroker, body: str | bytes
) -> None:
    broker.log("t").is_loading = True

    assert ask(broker, body) == f"ERROR: NOT_LEADER LEADER_IS {HERE}"


def test_a_loading_topic_can_be_described(broker: FakeBroker) -> None:
    broker.log("t").is_loading = True

    described = json.loads(ask(broker, "DESCRIBE topic=t"))

    assert [each["hwm"] for each in described["partitions"]] == [0, 0]
    assert ask(broker, "METADATA topic=t").startswith(
        f"OK topic=t partitions=2 leaders={HERE},{HERE} epochs=0,0 "
    )


def test_a_partition_with_a_failed_disk_is_reported(broker: FakeBroker) -> None:
    broker.log("t").is_offline = True

    answer = json.loads(ask(broker, batch("t", 0, SENT)))

    assert answer["status"] == "ERROR"
    assert answer["error"] == "broker_error reason='kafka storage error'"
    assert ask(broker, "PUBLISH topic=t partition=0 producerId=p message=m") == (
        'ERROR: command_failed reason="kafka storage error"'
    )


def test_a_loading_coordinator_is_reported(broker: FakeBroker) -> None:
    answer = FetchOffsetsResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.groups.answers = [answer] * 2

    assert ask(broker, "FETCH_OFFSET topic=t partition=0 group=g") == (
        "ERROR: coordinator_not_available"
    )
    assert ask(broker, "CONSUME topic=t partition=0 offset=0") == "ERROR: coordinator_not_available"


def test_an_ipv6_address_is_reported_as_a_host_name_that_clients_can_parse(
    broker: FakeBroker,
) -> None:
    broker.session.listener_host = "::1"

    assert ask(broker, "FIND_COORDINATOR group=g").endswith(" host=localhost port=9092")


def test_a_commit_to_a_group_of_another_protocol_with_members_is_refused(
    broker: FakeBroker,
) -> None:
    broker.groups.answers = [AssignedResponse(AssignedError.OTHER_PROTOCOL)]

    assert ask(broker, "COMMIT t g 0 1") == (
        'ERROR: group_in_use group=g reason="it has live members of another protocol"'
    )
