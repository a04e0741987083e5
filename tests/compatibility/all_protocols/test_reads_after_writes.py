"""A read sent right after a write on one connection sees it, in every protocol.

Each is sent many times to an existing topic: the read must not overtake the sync. With a
compression type of the topic's own, Python serves the writes.
"""

import pytest

from tests.compatibility.all_protocols.exchanges import EXCHANGES, Exchange
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient

TIMES = 20


@pytest.mark.parametrize("compression", ["producer", "gzip"])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=[f"{e.name} {e.acks}" for e in EXCHANGES])
def test_a_read_after_a_write_on_its_connection_sees_it(
    broker: Broker, topic: str, compression: str, exchange: Exchange
) -> None:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, compression_type=compression)

    exchange.run(broker.address, topic, range(TIMES))
