"""Clients that are slow, do not read, or are many: others are served and memory is limited."""

import socket
import struct
from contextlib import ExitStack

import pytest

from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, spends_at_most, wait_until
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch

pytestmark = pytest.mark.usefixtures("still_well")

NONE = 0

MIB = 1 << 20
GROWTH_BYTES_MAX = 24 * MIB
IDLE_CONNECTIONS = 2_000


def test_a_stalled_client_does_not_block_others(broker: Broker, topic: str) -> None:
    with WireClient(broker.address) as stalled, WireClient(broker.address) as other:
        wire_requests.create_topic(other, topic)
        batch = Batch([b"x" * 100_000]).encode()
        stalled.send_bytes(struct.pack(">i", len(batch)) + stalled.frame("Produce", 9, batch[:500]))

        assert wire_requests.produce(other, topic, Batch([b"a", b"b"]).encode()) == (NONE, 0)


def test_a_client_that_never_reads_its_responses_is_served_only_up_to_a_limit(
    broker: Broker, topic: str
) -> None:
    with WireClient(broker.address) as filler:
        wire_requests.create_topic(filler, topic)
        for _ in range(16):
            wire_requests.produce(filler, topic, Batch([b"x" * 1_000_000]).encode())
    before = broker.private_memory() if isinstance(broker, BrokerProcess) else 0

    with WireClient(broker.address) as deaf:
        asked = ask_until_blocked(deaf, topic)

        wire_requests.assert_serves(broker.address)
        if isinstance(broker, BrokerProcess):
            assert broker.private_memory() < before + GROWTH_BYTES_MAX
    assert asked > 0


def ask_until_blocked(deaf: WireClient, topic: str) -> int:
    """Send fetches for 16 MB each until the broker accepts no more; return the number accepted."""
    deaf.socket.settimeout(1.0)
    body = wire_requests.fetch_body(topic, 0, 0, 16 * MIB)
    for asked in range(20_000):
        try:
            deaf.send("Fetch", 11, body)
        except (TimeoutError, ConnectionClosedError):
            return asked
    raise AssertionError("the broker took 20,000 fetches and no reply was read")


def test_two_thousand_idle_connections_do_not_block_others(broker: Broker, topic: str) -> None:
    host, _, port = broker.address.rpartition(":")
    with ExitStack() as silent:
        for _ in range(IDLE_CONNECTIONS):
            silent.enter_context(socket.create_connection((host, int(port)), 60.0))
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, topic)
            batch = Batch([b"a", b"b"]).encode()
            with spends_at_most(broker, 1):
                assert wire_requests.produce(client, topic, batch) == (NONE, 0)
    if isinstance(broker, BrokerProcess):
        wait_until(lambda: broker.open_files() < IDLE_CONNECTIONS, "connections are closed")
