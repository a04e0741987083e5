"""Topics: what exists, creation, deletion, partitions, sizes, and deletion of records.

Every function asks any broker, which forwards what only the controller does, except for sizes and
deletion of records, which the brokers that have the partitions are asked for.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.brokers import live_brokers, log_dirs
from broker.client.connection import Api
from broker.client.metadata import Cluster, Partition, by_topic
from broker.client.retry import check
from broker.codec import error_of
from broker.model.address import Address
from broker.model.errors import ErrorCode, PeerError, RequestError, Unreachable
from broker.model.limits import CLIENT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from broker.codec import bodies

    _PartitionsRequest = bodies.DescribeTopicPartitionsRequest
    _PartitionsResponse = bodies.DescribeTopicPartitionsResponse

_CREATE: "Api[bodies.CreateTopicsRequest, bodies.CreateTopicsResponse]" = Api(
    "CreateTopics", range(4, 8)
)
_DELETE: "Api[bodies.DeleteTopicsRequest, bodies.DeleteTopicsResponse]" = Api(
    "DeleteTopics", range(1, 6)
)
_CREATE_PARTITIONS: "Api[bodies.CreatePartitionsRequest, bodies.CreatePartitionsResponse]" = Api(
    "CreatePartitions", range(4)
)
_DELETE_RECORDS: "Api[bodies.DeleteRecordsRequest, bodies.DeleteRecordsResponse]" = Api(
    "DeleteRecords", range(3)
)
_DESCRIBE_PARTITIONS: "Api[_PartitionsRequest, _PartitionsResponse]" = Api(
    "DescribeTopicPartitions", range(1)
)
_BROKER_DEFAULT: Final = -1
_PAGE: Final = 2000  # partitions of a response of DescribeTopicPartitions


class PartitionState(NamedTuple):
    """Who has a partition; leader is None while there is none."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicState(NamedTuple):
    """A topic with the state of its partitions."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]

    @property
    def replicas(self) -> int:
        """How many replicas each partition has; the smallest number if they differ."""
        return min((len(each.replicas) for each in self.partitions), default=0)

    def size_bytes(self, known: Mapping[Partition, int]) -> int | None:
        """Return the sum of what `sizes` has returned; None if a partition is missing there."""
        found = [known.get((self.name, each.partition)) for each in self.partitions]
        return None if None in found else sum(each for each in found if each is not None)


class NewTopic(NamedTuple):
    """A topic to be created; None: the broker's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = {}


def topic_states(cluster: Cluster, names: Collection[str] | None = None) -> dict[str, TopicState]:
    """Describe all topics, or those of `names` that exist.

    Raises:
        RequestError: a broker refuses.
        Unreachable: none of the addresses responds.
    """
    if names is not None and not names:
        return {}
    found = {}
    for topic in cluster.metadata(names)["topics"]:
        if topic["error_code"]:
            continue
        name, topic_id = topic["name"] or "", topic["topic_id"]
        partitions = [
            PartitionState(
                name,
                each["partition_index"],
                each["leader_id"] if each["leader_id"] >= 0 else None,
                tuple(each["replica_nodes"]),
                tuple(each["isr_nodes"]),
            )
            for each in topic["partitions"]
        ]
        found[name] = TopicState(
            name,
            topic_id.hex() if any(topic_id) else "",
            topic["is_internal"],
            tuple(sorted(partitions)),
        )
    return found


def partition_states(cluster: Cluster) -> list[PartitionState]:
    """Return the state of all partitions, by topic and number; raises as topic_states."""
    topics = sorted(topic_states(cluster).values())
    return [each for topic in topics for each in topic.partitions]


def eligible_leaders(cluster: Cluster, names: Sequence[str]) -> dict[Partition, tuple[int, ...]]:
    """Return the eligible leader replicas (KIP-966); nothing if the broker does not know them.

    Raises:
        RequestError: a broker refuses.
        Unreachable: none of the addresses responds.
    """
    found: dict[Partition, tuple[int, ...]] = {}
    cursor: bodies.DescribeTopicPartitionsRequestCursor | None = None
    while True:
        body: bodies.DescribeTopicPartitionsRequest = {
            "topics": [{"name": each} for each in sorted(names)],
            "response_partition_limit": _PAGE,
            "cursor": cursor,
        }
        try:
            address, answer = cluster.ask_any(_DESCRIBE_PARTITIONS, body)
        except PeerError:  # brokers before Kafka 3.7 do not have this request
            return {}
        for topic in answer["topics"]:
            check(topic["error_code"], f"{address}: topic {topic['name']!r}")
            for each in topic["partitions"]:
                elr = tuple(each["eligible_leader_replicas"] or ())
                found[topic["name"] or "", each["partition_index"]] = elr
        following = answer["next_cursor"]
        if following is None:
            return found
        cursor = {
            "topic_name": following["topic_name"],
            "partition_index": following["partition_index"],
        }


def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, is_dry_run: bool = False
) -> dict[str, RequestError | None]:
    """Create topics; return the error of each, or None.

    Raises:
        Unreachable: none of the addresses responds.
    """
    body: bodies.CreateTopicsRequest = {
        "topics": [
            {
                "name": each.name,
                "num_partitions": each.partitions or _BROKER_DEFAULT,
                "replication_factor": each.replication_factor or _BROKER_DEFAULT,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in each.configs.items()],
            }
            for each in topics
        ],
        "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
        "validate_only": is_dry_run,
    }

    def ask() -> dict[str, RequestError | None]:
        _, answer = cluster.ask_any(_CREATE, body)
        return {
            each["name"]: _error(
                each["error_code"], f"topic {each['name']!r}", each["error_message"]
            )
            for each in answer["topics"]
        }

    return cluster.retried(ask)


def delete_topics(cluster: Cluster, names: Sequence[str]) -> dict[str, RequestError | None]:
    """Delete topics; return the error of each, or None.

    Raises:
        Unreachable: none of the addresses responds.
    """
    body: bodies.DeleteTopicsRequest = {
        "topic_names": list(names),
        "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
    }
    _, answer = cluster.ask_any(_DELETE, body)
    return {
        each["name"] or "": _error(each["error_code"], f"topic {each['name']!r}", None)
        for each in answer["responses"]
    }


def create_partitions(cluster: Cluster, name: str, count: int, *, is_dry_run: bool = False) -> None:
    """Raise the number of a topic's partitions to `count`; RequestError, Unreachable."""
    body: bodies.CreatePartitionsRequest = {
        "topics": [{"name": name, "count": count, "assignments": None}],
        "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
        "validate_only": is_dry_run,
    }
    _, answer = cluster.ask_any(_CREATE_PARTITIONS, body)
    for each in answer["results"]:
        error = _error(each["error_code"], f"topic {name!r}", each["error_message"])
        if error is not None:
            raise error


def sizes(cluster: Cluster, names: Collection[str]) -> dict[Partition, int]:
    """Return the bytes that the largest replica of each partition has on its disk.

    Brokers that do not respond, or refuse, are left out.

    Raises:
        Unreachable: none of the addresses responds.
    """
    wanted = {
        name: [each.partition for each in topic.partitions]
        for name, topic in topic_states(cluster, names).items()
    }
    found: dict[Partition, int] = {}
    for address in live_brokers(cluster).values():
        try:
            folders = log_dirs(cluster, address, wanted)
        except (PeerError, RequestError, Unreachable):
            continue
        for key, size in (pair for folder in folders for pair in folder.sizes.items()):
            found[key] = max(found.get(key, 0), size)
    return found


def delete_records(cluster: Cluster, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    """Delete the records before an offset of each partition; return the new start offsets.

    Raises:
        RequestError: a leader refuses; others may have deleted theirs.
        Unreachable: a leader does not respond.
    """

    def body(partitions: list[Partition]) -> "bodies.DeleteRecordsRequest":
        return {
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": each, "offset": offsets[topic, each]}
                        for each in numbers
                    ],
                }
                for topic, numbers in by_topic(partitions).items()
            ],
            "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
        }

    def read(address: Address, answer: "bodies.DeleteRecordsResponse") -> dict[Partition, int]:
        found = {}
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"], each["partition_index"]
                check(each["error_code"], f"{address}: records of {key[0]}-{key[1]}")
                found[key] = each["low_watermark"]
        return found

    answers = cluster.ask_leaders(offsets, _DELETE_RECORDS, body, read)
    return {key: offset for answer in answers for key, offset in answer.items()}


def _error(code: int, what: str, text: str | None) -> RequestError | None:
    if not code:
        return None
    error = error_of(code)
    return RequestError(ErrorCode[error.name], f"{what}: {text or error.message} ({error.name})")
