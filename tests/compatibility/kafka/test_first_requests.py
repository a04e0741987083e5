"""Many clients' first requests to a new broker at the same moment."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

CLIENTS = 20
RETRIABLE = {3, 5, 15}  # Unknown topic, no leader yet, no coordinator yet.


def ask_at_once(
    address: str, name: str, version: int, body: dict[str, Any]
) -> list[dict[str, Any]]:
    """Send the same request on many connections before reading any answer."""
    with ExitStack() as connections:
        clients = [connections.enter_context(WireClient(address)) for _ in range(CLIENTS)]
        for client in clients:
            client.send(name, version, body)
        return [client.receive() for client in clients]


def test_the_first_find_coordinator_requests_may_arrive_together(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()

    answers = ask_at_once(broker.address, "FindCoordinator", 1, {"key": "group"})

    assert {answer["error_code"] for answer in answers} <= {0} | RETRIABLE
    again = ask_at_once(broker.address, "FindCoordinator", 1, {"key": "group"})
    assert {answer["error_code"] for answer in again} == {0}


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_a_topic_requested_by_many_clients_at_once_is_created_once(
    start_broker: Callable[..., BrokerProcess], durability: str, topic: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")

    answers = ask_at_once(broker.address, "Metadata", 12, {"topics": [{"name": topic}]})

    assert {answer["topics"][0]["error_code"] for answer in answers} <= {0} | RETRIABLE
    again = ask_at_once(broker.address, "Metadata", 12, {"topics": [{"name": topic}]})
    assert {answer["topics"][0]["error_code"] for answer in again} == {0}
    assert len({answer["topics"][0]["topic_id"] for answer in again}) == 1


def ask_and_do_not_read(
    connections: ExitStack, address: str, *questions: tuple[str, int, dict[str, Any]]
) -> None:
    """Send the same requests on many connections."""
    clients = [connections.enter_context(WireClient(address)) for _ in range(CLIENTS)]
    for client in clients:
        for question in questions:
            client.send(*question)


def test_clients_that_disconnect_right_after_a_request_do_no_harm(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker()

    with ExitStack() as connections:
        ask_and_do_not_read(
            connections,
            broker.address,
            ("FindCoordinator", 1, {"key": "group"}),
            ("Metadata", 12, {"topics": [{"name": topic}]}),
        )

    answers = ask_at_once(broker.address, "FindCoordinator", 1, {"key": "group"})
    assert {answer["error_code"] for answer in answers} == {0}


@pytest.mark.parametrize(
    "question",
    [
        ("FindCoordinator", 1, {"key": "group"}),
        ("Metadata", 12, {"topics": [{"name": "asked-for"}]}),
        ("Fetch", 11, wire_requests.fetch_body("existing", 0, 0, 1_000)),
        ("Produce", 9, wire_requests.produce_body("existing", [(0, Batch().encode())])),
    ],
    ids=lambda question: question[0],
)
def test_a_broker_stopped_while_requests_wait_shuts_down_cleanly(
    start_broker: Callable[..., BrokerProcess], question: tuple[str, int, dict[str, Any]]
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "existing")

    with ExitStack() as connections:
        ask_and_do_not_read(connections, broker.address, question, question)

        assert broker.stop() == 0
