"""What is counted of the requests of each API."""

from broker._native.log.partition_log import PartitionLog
from tests.support.native_log import records
from tests.support.native_wire import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Client,
    base_offset,
    fetch,
    produce,
    request,
)

BATCH = records(1)
SAMPLE = 64  # METER_SAMPLE


def served(client: Client, key: int) -> tuple[int, int]:
    """Return how many requests were counted, and of how many the time on the native path."""
    versions, _, _, (counts, _), _ = dict(client.wire.kafka.request_meters())[key]
    return sum(versions), sum(counts)


def test_apis_that_a_client_uses_by_turns_are_both_sampled(
    client: Client, log: PartitionLog
) -> None:
    for _ in range(SAMPLE + 1):
        base_offset(client, produce(9, (0, BATCH)))
        client.ask(fetch(11, (0, log.log_end_offset - 1)))

    assert served(client, PRODUCE) == (SAMPLE + 1, 2)
    assert served(client, FETCH) == (SAMPLE + 1, 2)


def test_a_request_that_is_left_to_python_counts_for_its_api(client: Client) -> None:
    client.send(request(API_VERSIONS, 0, {}))

    assert served(client, API_VERSIONS) == (1, 0)
    (left,) = client.wire.slow
    left.take_body()
    left.send(b"")
    assert served(client, API_VERSIONS) == (1, 1)
