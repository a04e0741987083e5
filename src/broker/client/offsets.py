"""Start and end offsets of partitions, offsets by timestamp, and committed offsets of groups.

A committed offset is the next one to read.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.connection import Api
from broker.client.coordinators import GROUP, coordinator
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check
from broker.model.address import Address

if TYPE_CHECKING:
    from broker.codec import bodies

EARLIEST: Final = -2  # requests the log start offset
LATEST: Final = -1  # requests the high watermark, or the last stable offset

_LIST_OFFSETS: "Api[bodies.ListOffsetsRequest, bodies.ListOffsetsResponse]" = Api(
    "ListOffsets", range(2, 8)
)
_OFFSET_FETCH: "Api[bodies.OffsetFetchRequest, bodies.OffsetFetchResponse]" = Api(
    "OffsetFetch", range(2, 8)
)


class Found(NamedTuple):
    """The result of ListOffsets: an offset, and the timestamp (ms) of its record or -1.

    In a request by timestamp, both are -1 if no record has that timestamp or a later one.
    """

    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    *,
    is_committed: bool = False,
    topic_ids: Mapping[str, str] | None = None,
) -> dict[Partition, Found]:
    """Ask the leaders of partitions for offsets.

    Args:
        cluster: the cluster.
        wanted: EARLIEST, LATEST or a timestamp in ms for each partition; a timestamp means the
            first record with that timestamp or a later one.
        is_committed: LATEST is the last stable offset instead of the high watermark.
        topic_ids: as in Cluster.ask_leaders.

    Raises:
        RequestError: a broker refuses; the message names it and the partition.
        Unreachable: a leader does not respond.
    """

    def body(partitions: list[Partition]) -> "bodies.ListOffsetsRequest":
        return {
            "replica_id": -1,
            "isolation_level": int(is_committed),
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": each, "timestamp": wanted[topic, each]}
                        for each in numbers
                    ],
                }
                for topic, numbers in by_topic(partitions).items()
            ],
        }

    def read(address: Address, answer: "bodies.ListOffsetsResponse") -> dict[Partition, Found]:
        found: dict[Partition, Found] = {}
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"], each["partition_index"]
                check(each["error_code"], f"{address}: offsets of {key[0]}-{key[1]}")
                found[key] = Found(each["offset"], each["timestamp"])
        return found

    answers = cluster.ask_leaders(wanted, _LIST_OFFSETS, body, read, topic_ids=topic_ids)
    return {key: found for answer in answers for key, found in answer.items()}


def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    """Return the committed offsets of a group in all partitions that have one.

    Raises:
        RequestError: the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """
    body: bodies.OffsetFetchRequest = {"group_id": group, "topics": None}

    def ask() -> "bodies.OffsetFetchResponse":
        address = coordinator(cluster, group, GROUP)
        answer = cluster.ask(address, _OFFSET_FETCH, body)
        check(answer["error_code"], f"{address}: offsets of group {group!r}")
        return answer

    answer = cluster.retried(ask)
    found: dict[Partition, int] = {}
    for topic in answer["topics"]:
        for each in topic["partitions"]:
            what = f"{cluster}: {topic['name']}-{each['partition_index']} of group {group!r}"
            check(each["error_code"], what)
            if each["committed_offset"] >= 0:
                found[topic["name"], each["partition_index"]] = each["committed_offset"]
    return found
