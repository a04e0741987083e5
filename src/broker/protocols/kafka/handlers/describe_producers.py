"""DescribeProducers, v0-0: what each partition knows of its producers (KIP-664).

Who looks for a hanging transaction compares this with what the transaction coordinator knows.
"""

from broker.core.session import Session
from broker.model.errors import RequestError
from broker.protocols.kafka.api import Api, Fields, Request, refuse_with_message
from broker.protocols.kafka.lookup import log_of, topic_by_name


def handle(request: Request, session: Session) -> Fields:
    """Describe each partition that was asked for."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    _partition(session, topic["name"], index)
                    for index in topic["partition_indexes"]
                ],
            }
            for topic in request.body["topics"]
        ]
    }


def _partition(session: Session, topic: str, index: int) -> Fields:
    try:
        log = log_of(topic_by_name(session.broker.topics, topic), index)
    except RequestError as error:
        return {"partition_index": index, **refuse_with_message(error), "active_producers": []}
    return {
        "partition_index": index,
        "error_code": 0,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "last_sequence": last_sequence,
                "last_timestamp": last_timestamp,
                "coordinator_epoch": coordinator_epoch,
                "current_txn_start_offset": first_offset,
            }
            for (
                producer_id,
                epoch,
                last_sequence,
                last_timestamp,
                coordinator_epoch,
                first_offset,
            ) in log.active_producers
        ],
    }


API = Api(61, "DescribeProducers", range(1), handle)
