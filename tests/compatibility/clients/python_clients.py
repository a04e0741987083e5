"""What the two clients in pure Python share: aiokafka is derived from kafka-python."""

from typing import Any

from tests.compatibility.clients.client import (
    EARLIEST,
    HEARTBEAT_INTERVAL_MS,
    POLL_TIMEOUT_S,
    SESSION_TIMEOUT_MS,
    Producing,
    Record,
)

POLL_TIMEOUT_MS = int(POLL_TIMEOUT_S * 1_000)
# A metadata request made while a response is in flight is forgotten when that response arrives. A
# leader that has assigned without a topic's partitions then waits for the next refresh, by default
# 5 minutes.
METADATA_MAX_AGE_MS = 5_000
ACKS = {"0": 0, "1": 1, "all": "all"}


def producer_options(address: str, how: Producing) -> dict[str, Any]:
    """Return what a producer is made with."""
    return {
        "bootstrap_servers": address,
        "compression_type": None if how.compression == "none" else how.compression,
        "acks": ACKS[how.acks],
        "enable_idempotence": how.idempotent,
        "max_request_size": 2_000_000,
    }


def reader_options(address: str, start: int | str) -> dict[str, Any]:
    """Return what a consumer without a group is made with."""
    reset = start if isinstance(start, str) else EARLIEST
    return {"bootstrap_servers": address, "auto_offset_reset": reset}


def member_options(address: str, group: str) -> dict[str, Any]:
    """Return what a consumer of a group is made with."""
    return {
        **reader_options(address, EARLIEST),
        "group_id": group,
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }


def sent(record: Record) -> dict[str, Any]:
    """Return a record as arguments of `send`."""
    return {
        "value": record.value,
        "key": record.key,
        "headers": list(record.headers),
        "partition": record.partition,
        "timestamp_ms": record.timestamp,
    }


def polled(batches: dict[Any, list[Any]]) -> list[Record]:
    """Return the records of a poll as `Record`s."""
    return [
        Record(
            value=record.value,
            key=record.key,
            headers=tuple(record.headers),
            timestamp=record.timestamp,
            partition=record.partition,
            offset=record.offset,
        )
        for batch in batches.values()
        for record in batch
    ]


def addresses(cluster: dict[str, Any]) -> list[str]:
    """Return host:port of the brokers that DescribeCluster names."""
    return [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
