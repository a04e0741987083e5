"""Attacks by producers: unlimited ids, each of which a partition or a coordinator remembers."""

from contextlib import ExitStack, suppress

from tests.attacks.topics import PARTITIONS, wide_topics
from tests.support import wire_requests
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch

TRANSACTIONAL_IDS = 500
IDEMPOTENT_IDS = 40_000
IDEMPOTENT_PARTITIONS = 50
IDS_PER_SEND = 500
TRANSACTIONS = 50


def take_transactional_ids_without_end(address: str, held: ExitStack) -> None:
    """Initialise transactional ids; each is a record and remembered until it expires."""
    client = held.enter_context(WireClient(address))
    wait_for_transactions(client)
    body = {"transaction_timeout_ms": 60_000}
    with suppress(ConnectionClosedError):
        for start in range(0, TRANSACTIONAL_IDS, IDS_PER_SEND):
            for number in range(start, start + IDS_PER_SEND):
                name = f"{number}-" + "x" * 500
                client.send("InitProducerId", 1, body | {"transactional_id": name})
            for _ in range(IDS_PER_SEND):
                client.receive_frame()


def write_one_batch_with_each_producer_id(address: str, held: ExitStack) -> None:
    """Write with made-up producer ids: the partition remembers each one that writes."""
    client = held.enter_context(WireClient(address))
    with suppress(AssertionError):  # it exists since the previous round
        wire_requests.create_topic(client, "many-ids", IDEMPOTENT_PARTITIONS)
    per_request = 4_000
    with suppress(ConnectionClosedError):
        for first in range(0, IDEMPOTENT_IDS, per_request):
            body = wire_requests.produce_body("many-ids", [])
            for number in range(first, first + per_request, IDEMPOTENT_PARTITIONS):
                body["topic_data"][0]["partition_data"] = [
                    {
                        "index": n,
                        "records": Batch(
                            [b"a"], producer_id=number + n, producer_epoch=0, base_sequence=0
                        ).encode(),
                    }
                    for n in range(IDEMPOTENT_PARTITIONS)
                ]
                client.send("Produce", wire_requests.PRODUCE_VERSION, body)
            for _ in range(per_request // IDEMPOTENT_PARTITIONS):
                client.receive_frame()


def open_wide_transactions(address: str, held: ExitStack) -> None:
    """Open transactions that stay open, each over many partitions that are never written to."""
    client = held.enter_context(WireClient(address))
    wait_for_transactions(client)
    topics = [
        {"name": name, "partitions": list(range(PARTITIONS))} for name in wide_topics(address)
    ]
    with suppress(ConnectionClosedError):
        for number in range(TRANSACTIONS):
            name = {"transactional_id": f"wide-{number}"}
            given = client.request("InitProducerId", 1, name | {"transaction_timeout_ms": 900_000})
            if given["error_code"]:
                continue
            producer = {each: given[each] for each in ("producer_id", "producer_epoch")}
            body = {f"v3_and_below_{key}": value for key, value in (name | producer).items()}
            body["v3_and_below_topics"] = topics
            client.request("AddPartitionsToTxn", 2, body)


def wait_for_transactions(client: WireClient) -> None:
    """Send FindCoordinator for transactions first, as every client does."""
    client.request("FindCoordinator", 2, {"key": "flood", "key_type": 1})


ATTACKS = [
    take_transactional_ids_without_end,
    write_one_batch_with_each_producer_id,
    open_wide_transactions,
]
