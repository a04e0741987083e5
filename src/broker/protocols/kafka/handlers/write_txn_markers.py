"""WriteTxnMarkers, v1-2. v1 flexible; v2 transaction version (KIP-1228). Kafka 4.0 removed v0.

Transaction coordinators send it to the brokers that lead the partitions of a transaction, and
`kafka-transactions abort` to end a hanging transaction, which is open in a log but unknown to its
coordinator. The answer is sent when all markers are on the disk.
"""

from asyncio import Future
from typing import TYPE_CHECKING

from broker.codec.control_records import Marker
from broker.core import access
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.transactions.records import TopicPartition, by_topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import MARKERS_PER_TURN
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, call_in_turns
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.WriteTxnMarkersRequest]", session: Session
) -> "bodies.WriteTxnMarkersResponse":
    """Write each marker into each of its partitions."""
    wanted = request.body["markers"]
    markers = [
        Marker(
            each["producer_id"],
            each["producer_epoch"],
            each["transaction_result"],
            each["coordinator_epoch"],
        )
        for each in wanted
    ]
    places = [
        await unique_partitions(
            (topic["name"], topic["partition_indexes"]) for topic in each["topics"]
        )
        for each in wanted
    ]

    try:
        if not access.may_cluster(session, Operation.ALTER):
            access.check_cluster(session, Operation.CLUSTER_ACTION)
    except RequestError as error:
        code = error.code
        return {
            "markers": [
                _written(marker, dict.fromkeys(its, code))
                for marker, its in zip(markers, places, strict=True)
            ]
        }

    def write(one: tuple[TopicPartition, Marker, int]) -> Future[ErrorCode]:
        return session.broker.transactions.write_marker(*one)

    writes = (
        (each, marker, asked.get("transaction_version", 0))
        for asked, marker, its in zip(wanted, markers, places, strict=True)
        for each in its
    )
    codes = iter(await call_in_turns(write, writes, MARKERS_PER_TURN))
    return {
        "markers": [
            _written(marker, dict(zip(its, codes, strict=False)))
            for marker, its in zip(markers, places, strict=True)
        ]
    }


def _written(
    marker: Marker, codes: dict[TopicPartition, ErrorCode]
) -> "bodies.WriteTxnMarkersResponseMarker":
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
            for name, partitions in by_topic(codes).items()
        ],
    }


API = Api(
    27,
    "WriteTxnMarkers",
    range(1, 3),
    handle,
    (
        *on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
        *on_each(Operation.ALTER, ResourceType.CLUSTER),
    ),
)
