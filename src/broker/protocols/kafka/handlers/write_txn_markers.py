"""WriteTxnMarkers, v1-2. v1 flexible; v2 transaction version. v0 went with Kafka 4.0.

Brokers send it to each other, and `kafka-transactions abort` to end a hanging transaction: one that
is open in a log while no coordinator knows of it.
"""

import asyncio

from broker.codec.control_records import Marker
from broker.core.session import Session
from broker.core.transactions.records import by_topic
from broker.protocols.kafka import errors, transactions
from broker.protocols.kafka.api import Api, Fields, Request


async def handle(request: Request, session: Session) -> Fields:
    """Write each marker into each of its partitions."""
    return {"markers": [await _write(session, each) for each in request.body["markers"]]}


async def _write(session: Session, wanted: Fields) -> Fields:
    marker = Marker(
        wanted["producer_id"],
        wanted["producer_epoch"],
        wanted["transaction_result"],
        wanted["coordinator_epoch"],
    )
    places = list(
        dict.fromkeys(
            transactions.places_of(wanted["topics"], name="name", partitions="partition_indexes")
        )
    )
    coordinator = session.broker.transactions
    results = await asyncio.gather(*(coordinator.write_marker(each, marker) for each in places))
    codes = dict(zip(places, results, strict=True))
    return {
        "producer_id": marker.producer_id,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": each, "error_code": errors.number(codes[name, each])}
                    for each in partitions
                ],
            }
            for name, partitions in by_topic(places).items()
        ],
    }


API = Api(27, "WriteTxnMarkers", range(1, 3), handle)
