"""Clients that would fill the broker's log: with resets and with refused requests."""

import socket
import struct
import time
from collections.abc import Callable

from broker.model.limits import LOG_LINES_PER_SECOND_MAX
from tests import wire_requests
from tests.broker_process import BrokerProcess, wait_until
from tests.wire_client import WireClient

CLIENTS = 1_500
LINGER_NOT = struct.pack("ii", 1, 0)  # a close sends a reset


def test_connections_that_are_reset_write_no_line(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    before = len(broker.log_lines())

    for _ in range(CLIENTS):
        with WireClient(broker.address) as client:
            client.send("ApiVersions", 0, {})
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)

    wire_requests.assert_serves(broker.address)
    assert broker.log_lines()[before:] == []


def test_refused_requests_write_so_many_lines_in_a_second_and_the_others_are_counted(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    before = len(broker.log_lines())

    begun = time.monotonic()
    for _ in range(CLIENTS):
        with WireClient(broker.address) as client:
            client.send_frame(client.frame("Metadata", 9, b"\xff" * 40))
            client.expect_closed()
    seconds = int(time.monotonic() - begun) + 2
    time.sleep(1)
    with WireClient(broker.address) as client:
        client.send_frame(client.frame("Metadata", 9, b"\xff" * 40))
        client.expect_closed()

    def lines() -> list[str]:
        return broker.log_lines()[before:]

    if seconds * LOG_LINES_PER_SECOND_MAX < CLIENTS:  # else the machine was too slow to be limited
        wait_until(lambda: any("lines left out: count=" in line for line in lines()), "the count")
    refused = [line for line in lines() if "request refused" in line]
    assert 0 < len(refused) <= min(seconds * LOG_LINES_PER_SECOND_MAX, CLIENTS)
