"""Records with very many headers: they are stored as they are, and read in bounded memory.

As in Kafka there is no limit on their number besides that on the size of a batch.
"""

import gzip
from collections.abc import Callable

import pytest

from broker.codec import records
from tests.support import rustlog_client, wire_requests
from tests.support.broken_batches import headers, one
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient
from tests.support.line_client import LineClient
from tests.support.rustlog_client import RustLogClient
from tests.support.wire_client import WireClient
from tests.support.wire_records import CODECS, Batch, field

pytestmark = pytest.mark.usefixtures("still_well")  # the largest decompressed batch is 16 MiB

NONE, INVALID_RECORD = 0, 87
MIB = 1 << 20
READ_BYTES = 2 * MIB
OLD_BYTES_MAX = 200
RECORDS_AT = 61  # in a batch
NAMED = headers(1_000, *(field(b"name-%d" % at) + field(b"x" * 50) for at in range(1_000)))
EMPTY = field(b"") + field(None)  # two bytes, the fewest


def plain(part: bytes) -> bytes:
    """Return a batch of one record with these headers."""
    return Batch(payload=one(headers=part)).encode()


def compressed(part: bytes) -> bytes:
    """Return the same, compressed."""
    payload = gzip.compress(one(headers=part), 1)
    return Batch(payload=payload, attributes=CODECS["gzip"]).encode()


MANY = 8_000_000  # almost 16 MiB
# Made when they are needed: some are large.
TAKEN: dict[str, Callable[[], bytes]] = {
    "a thousand": lambda: plain(NAMED),
    "a thousand, compressed": lambda: compressed(NAMED),
    "as many as fit": lambda: plain(headers(520_000, EMPTY * 520_000)),
    "as many as fit, compressed": lambda: compressed(headers(MANY, EMPTY * MANY)),
}
REFUSED: dict[str, Callable[[], bytes]] = {
    "more than there are": lambda: plain(headers(1_001, EMPTY * 1_000)),
    "fewer than there are": lambda: plain(headers(999, EMPTY * 1_000)),
    "as many as can be told": lambda: plain(headers(2**31 - 1, EMPTY * 1_000)),
    "as many as can be told, compressed": lambda: compressed(headers(2**31 - 1, EMPTY * MANY)),
    "less than none": lambda: plain(headers(-1, EMPTY * 1_000)),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_record_with_very_many_headers_is_read_by_every_protocol(
    broker: Broker, topic: str, case: str
) -> None:
    batch = TAKEN[case]()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        assert wire_requests.produce(client, topic, batch) == (NONE, 0)

        read = wire_requests.fetch(client, topic, 0, 0)
        older = client.request("Fetch", 3, wire_requests.fetch_body(topic, 0, 0, READ_BYTES))

    assert read[RECORDS_AT:] == batch[RECORDS_AT:]
    if "thousand" in case:
        [record] = records(read)
        assert [name for name, _ in record.headers] == [b"name-%d" % at for at in range(1_000)]
    [partition] = older["responses"][0]["partitions"]
    assert partition["error_code"] == NONE
    assert 0 < len(partition["records"]) < OLD_BYTES_MAX  # messages have no headers
    with RustLogClient(broker.address) as rustlog:
        found = rustlog_client.read_fetched(
            rustlog.ask(rustlog_client.fetch(topic, 0, 0, READ_BYTES))
        )
        assert b"value" in found.records[0]
    with CursusClient(broker.address) as cursus:
        consumed = cursus.consume(f"CONSUME topic={topic} partition=0 offset=0")
        assert [each.payload for each in consumed.messages] == [b"value"]
    with LineClient(broker.address) as lines:
        assert "value" in lines.command(f"CONSUME {topic} 0 0")


@pytest.mark.parametrize("case", REFUSED)
def test_a_false_number_of_headers_is_refused(broker: Broker, topic: str, case: str) -> None:
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)

        assert wire_requests.produce(client, topic, REFUSED[case]()) == (INVALID_RECORD, -1)
