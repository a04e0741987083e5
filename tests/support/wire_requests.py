"""Requests that many tests send, in one version each."""

from collections.abc import Sequence
from typing import Any

from tests.support.broker_process import wait_until
from tests.support.wire_client import WireClient

PRODUCE_VERSION = 9
ALL = -1


def assert_serves(address: str) -> None:
    """Fail unless a new connection is answered at once."""
    with WireClient(address) as client:
        assert client.request("ApiVersions", 0, {})["error_code"] == 0


def create_topic(client: WireClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic."""
    response = client.request(
        "CreateTopics",
        5,
        {
            "topics": [
                {
                    "name": topic,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": name.replace("_", "."), "value": value}
                        for name, value in configs.items()
                    ],
                }
            ],
            "timeout_ms": 10_000,
        },
    )
    assert response["topics"][0]["error_code"] == 0, response
    # A broker may answer before its partitions have their leader.
    wait_until(lambda: is_led(client, topic, partitions), f"{topic} has its leaders")


def alter_topic(client: WireClient, topic: str, configs: dict[str, str]) -> None:
    """Set some of a topic's configuration."""
    changes = [
        {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": 2, "resource_name": topic, "configs": changes}
    body = {"resources": [resource], "validate_only": False}
    [answer] = client.request("IncrementalAlterConfigs", 1, body)["responses"]
    assert answer["error_code"] == 0, answer


def is_led(client: WireClient, topic: str, partitions: int) -> bool:
    """Return whether every partition is served: it has a leader, and its log is loaded."""
    answers = [list_offset(client, topic, partition, -1) for partition in range(partitions)]
    return all(answer["error_code"] == 0 for answer in answers)


def produce_body(
    topic: str, batches: Sequence[tuple[int, bytes | None]], acks: int = ALL
) -> dict[str, Any]:
    """Return a Produce request of (partition, records)."""
    return {
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": [
            {
                "name": topic,
                "partition_data": [
                    {"index": partition, "records": records} for partition, records in batches
                ],
            }
        ],
    }


def produce(
    client: WireClient, topic: str, records: bytes | None, partition: int = 0, acks: int = ALL
) -> tuple[int, int]:
    """Write records and return (error code, base offset)."""
    response = client.request(
        "Produce", PRODUCE_VERSION, produce_body(topic, [(partition, records)], acks)
    )
    return produced(response)


def produced(response: dict[str, Any]) -> tuple[int, int]:
    """Return (error code, base offset) of a Produce response for one partition."""
    [topic] = response["responses"]
    [partition] = topic["partition_responses"]
    return partition["error_code"], partition["base_offset"]


def fetch_body(topic: str, partition: int, offset: int, max_bytes: int) -> dict[str, Any]:
    """Return a Fetch request of one partition that waits at most half a second."""
    return {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": max_bytes,
                    }
                ],
            }
        ],
    }


def fetch(
    client: WireClient, topic: str, partition: int, offset: int, max_bytes: int = 4 << 20
) -> bytes:
    """Return the batches from an offset on."""
    response = client.request("Fetch", 11, fetch_body(topic, partition, offset, max_bytes))
    found = response["responses"][0]["partitions"][0]
    assert found["error_code"] == 0, found["error_code"]
    return found["records"] or b""


def list_offset(client: WireClient, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
    """Return the ListOffsets response for a timestamp (-1 latest, -2 earliest)."""
    response = client.request(
        "ListOffsets",
        7,
        {
            "replica_id": -1,
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partition_index": partition, "timestamp": timestamp}],
                }
            ],
        },
    )
    answer: dict[str, Any] = response["topics"][0]["partitions"][0]
    return answer


def end_offset(client: WireClient, topic: str, partition: int = 0) -> int:
    """Return the offset of the next record."""
    answer = list_offset(client, topic, partition, -1)
    assert answer["error_code"] == 0, answer
    offset: int = answer["offset"]
    return offset


def init_producer_id(client: WireClient) -> tuple[int, int]:
    """Return a new producer id and its epoch."""
    response = client.request(
        "InitProducerId", 1, {"transactional_id": None, "transaction_timeout_ms": 60_000}
    )
    assert response["error_code"] == 0, response
    return response["producer_id"], response["producer_epoch"]


def find_coordinator(client: WireClient, group: str) -> int:
    """Send FindCoordinator for a group, as every client does first, and return the error code."""
    code: int = client.request("FindCoordinator", 1, {"key": group})["error_code"]
    return code


def commit_offset(client: WireClient, group: str, topic: str, offset: int) -> int:
    """Commit an offset of partition 0 without a member and return the error code."""
    response = client.request(
        "OffsetCommit",
        7,
        {
            "group_id": group,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
                    ],
                }
            ],
        },
    )
    code: int = response["topics"][0]["partitions"][0]["error_code"]
    return code


def committed_offset(
    client: WireClient, group: str, topic: str, partition: int = 0
) -> tuple[int, int]:
    """Return (error code, committed offset)."""
    response = client.request(
        "OffsetFetch",
        5,
        {"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition]}]},
    )
    if response["error_code"]:
        return response["error_code"], -1
    found = response["topics"][0]["partitions"][0]
    return found["error_code"], found["committed_offset"]


def committed(client: WireClient, group_id: str) -> dict[tuple[str, int], int]:
    """Return what a group has committed, by topic and partition."""
    body = {"group_id": group_id, "topics": None, "require_stable": False}
    return {
        (topic["name"], each["partition_index"]): each["committed_offset"]
        for topic in client.request("OffsetFetch", 7, body)["topics"]
        for each in topic["partitions"]
    }
