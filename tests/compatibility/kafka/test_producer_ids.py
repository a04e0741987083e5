"""Clients that make up producer ids: other producers continue, and memory stays limited."""

from collections.abc import Callable

from broker.model.limits import PRODUCER_IDS_PER_PARTITION_MAX
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

NONE = 0
BATCHES_PER_SEND = 500


def batch(producer_id: int, sequence: int) -> bytes:
    """Return a producer's batch of one record."""
    return Batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence).encode()


def make_up(client: WireClient, topic: str, ids: range) -> None:
    """Write one batch of each producer id; each must be accepted."""
    for first in range(ids.start, ids.stop, BATCHES_PER_SEND):
        some = ids[first - ids.start : first - ids.start + BATCHES_PER_SEND]
        for each in some:
            body = wire_requests.produce_body(topic, [(0, batch(each, 0))])
            client.send("Produce", wire_requests.PRODUCE_VERSION, body)
        for _ in some:
            assert wire_requests.produced(client.receive())[0] == NONE


def test_new_producers_are_accepted_however_many_a_partition_has_seen(
    start_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = start_broker("polylog.durability=os")
    made_up = PRODUCER_IDS_PER_PARTITION_MAX + BATCHES_PER_SEND
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        assert wire_requests.produce(client, topic, batch(1, 0)) == (NONE, 0)
        make_up(client, topic, range(100, 100 + made_up // 2))
        assert wire_requests.produce(client, topic, batch(1, 1))[0] == NONE
        make_up(client, topic, range(100 + made_up // 2, 100 + made_up))
        again, offset = wire_requests.produce(client, topic, batch(1, 1))
        end = wire_requests.end_offset(client, topic)
    assert (again, offset) == (NONE, 1 + made_up // 2)
    assert end == made_up + 2

    broker.restart()

    with WireClient(broker.address) as client:
        assert wire_requests.produce(client, topic, batch(2, 0)) == (NONE, end)
        assert wire_requests.produce(client, topic, batch(1, 1)) == (NONE, offset)
        assert wire_requests.end_offset(client, topic) == end + 1
