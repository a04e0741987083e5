"""Start and end offsets of partitions, offsets by timestamp, and committed offsets of groups.

A committed offset is the next one to read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from broker.client.coordinators import GROUP, coordinator
from broker.client.metadata import Cluster, by_leader
from broker.client.retry import check, with_retries
from broker.codec import Fields
from broker.model.address import Address
from broker.model.errors import RequestError, Unreachable

EARLIEST: Final = -2  # requests the log start offset
LATEST: Final = -1  # requests the high watermark, or the last stable offset

Partition = tuple[str, int]
_AnswerT = TypeVar("_AnswerT")

_LIST_OFFSETS_VERSIONS = range(2, 8)
_OFFSET_FETCH_VERSIONS = range(2, 8)


class Found(NamedTuple):
    """The result of ListOffsets: an offset, and the timestamp (ms) of its record or -1.

    In a request by timestamp, both are -1 if no record has that timestamp or a later one.
    """

    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[Partition, int], *, is_committed: bool = False
) -> dict[Partition, Found]:
    """Ask the leaders of partitions for offsets.

    Args:
        cluster: the cluster.
        wanted: EARLIEST, LATEST or a timestamp in ms for each partition; a timestamp means the
            first record with that timestamp or a later one.
        is_committed: LATEST is the last stable offset instead of the high watermark.

    Raises:
        RequestError: a broker refuses; the message names it and the partition.
        Unreachable: a leader does not respond.
    """

    def ask() -> dict[Partition, Found]:
        found: dict[Partition, Found] = {}
        for address, partitions in by_leader(cluster, wanted):
            found.update(_ask_leader(cluster, address, partitions, wanted, is_committed))
        return found

    return _with_new_leaders(cluster, wanted, ask)


def _ask_leader(
    cluster: Cluster,
    address: Address,
    partitions: list[Partition],
    wanted: Mapping[Partition, int],
    is_committed: bool,  # noqa: FBT001 - private, with one caller
) -> dict[Partition, Found]:
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": each, "timestamp": wanted[topic, each]} for each in numbers
            ],
        }
        for topic, numbers in _by_topic(partitions).items()
    ]
    body: Fields = {"replica_id": -1, "isolation_level": int(is_committed), "topics": topics}
    answer = cluster.ask(address, "ListOffsets", _LIST_OFFSETS_VERSIONS, body)
    found: dict[Partition, Found] = {}
    for topic in answer["topics"]:
        for each in topic["partitions"]:
            key = topic["name"], each["partition_index"]
            check(each["error_code"], f"{address}: offsets of {key[0]}-{key[1]}")
            found[key] = Found(each["offset"], each["timestamp"])
    return found


def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    """Return the committed offsets of a group in all partitions that have one.

    Raises:
        RequestError: the coordinator refuses.
        Unreachable: no broker responds, or the coordinator does not.
    """
    body: Fields = {"group_id": group, "topics": None}

    def ask() -> Fields:
        address = coordinator(cluster, group, GROUP)
        answer = cluster.ask(address, "OffsetFetch", _OFFSET_FETCH_VERSIONS, body)
        check(answer["error_code"], f"{address}: offsets of group {group!r}")
        return answer

    answer = with_retries(ask, give_up_seconds=cluster.give_up_seconds)
    found: dict[Partition, int] = {}
    for topic in answer["topics"]:
        for each in topic["partitions"]:
            what = f"{cluster}: {topic['name']}-{each['partition_index']} of group {group!r}"
            check(each["error_code"], what)
            if each["committed_offset"] >= 0:
                found[topic["name"], each["partition_index"]] = each["committed_offset"]
    return found


def _with_new_leaders(
    cluster: Cluster, partitions: Iterable[Partition], ask: Callable[[], _AnswerT]
) -> _AnswerT:
    """Call `ask` with retries; look up the leaders again before each retry."""

    def once() -> _AnswerT:
        try:
            return ask()
        except (RequestError, Unreachable):
            for topic in {each for each, _ in partitions}:
                cluster.forget_leaders(topic)
            raise

    return with_retries(once, give_up_seconds=cluster.give_up_seconds)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
