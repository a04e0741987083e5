"""Undecodable records in internal topics: only their own content is lost."""

from collections.abc import Callable

import pytest

from tests.support import wire_requests
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.client

ONE_PARTITION = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]
WRITABLE = "polylog.internal.topics.writable=true"
INTERNAL = ("__consumer_offsets", "__transaction_state")
INVALID_TOPIC = 17
# No type, truncated keys, truncated values, or values of an unknown version.
POISON = [
    batch_of([(b"\0", b"", ())], 0),
    batch_of([(b"\0\0\x7f\xffcut", b"", ()), (b"\0\1\x7f\xffcut", b"", ())], 0),
    batch_of([(b"\0\0\0\1x", b"\0\1", ()), (b"\0\2\0\1g", b"\0\3cut", ())], 0),
    batch_of([(b"\0\1\0\1g\0\1t\0\0\0\0", b"\x7f\xff", ())], 0),
]


def init(client: WireClient, transactional_id: str) -> tuple[int, int]:
    """Return the error code and producer id of the next producer of a transactional id."""
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
    answer = client.request("InitProducerId", 1, body)
    return answer["error_code"], answer["producer_id"]


def begin(client: WireClient) -> None:
    """Give both coordinators some state."""
    wire_requests.create_topic(client, "t")
    wait_until(lambda: wire_requests.commit_offset(client, "g", "t", 5) == 0, "a group commits")
    wait_until(lambda: init(client, "x")[0] == 0, "a producer id is returned")


def test_groups_and_transactions_work_despite_unreadable_internal_records(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker(*ONE_PARTITION, WRITABLE)
    broker.expected_complaints += ["set records aside"]
    with WireClient(broker.address) as client:
        begin(client)
    with WireClient(broker.address, client_id="__admin_client") as client:
        for topic in INTERNAL:
            for records in POISON:
                assert wire_requests.produce(client, topic, records)[0] == 0

    for stop in (broker.kill, broker.stop):
        stop()
        broker.start()

        with WireClient(broker.address) as client:
            assert wire_requests.committed_offset(client, "g", "t") == (0, 5)
            assert wire_requests.commit_offset(client, "h", "t", 6) == 0
            assert wire_requests.committed_offset(client, "h", "t") == (0, 6)
            codes = [init(client, name)[0] for name in ("x", "y")]
            assert codes == [0, 0]
    lines = [each for each in broker.log_lines() if "set records aside" in each]
    for topic in INTERNAL:
        own = [each for each in lines if f"partition={topic}-0 count=" in each]
        assert len(own) == 2, lines  # once for each start


@pytest.mark.parametrize("client_id", ["__admin_client", "tester"])
def test_clients_cannot_write_to_internal_topics_unless_a_setting_allows_it(
    broker: BrokerProcess, topic: str, client_id: str
) -> None:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        wait_until(lambda: wire_requests.commit_offset(client, "g", topic, 5) == 0, "it commits")
        end_offset = wire_requests.end_offset(client, INTERNAL[0])
    with WireClient(broker.address, client_id=client_id) as client:
        assert wire_requests.produce(client, INTERNAL[0], POISON[0])[0] == INVALID_TOPIC
        assert wire_requests.end_offset(client, INTERNAL[0]) == end_offset
