"""The brokers of a cluster, what they support, and their data directories."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker import codec
from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.model.address import Address

if TYPE_CHECKING:
    from broker.codec import bodies

_CLUSTER: "Api[bodies.DescribeClusterRequest, bodies.DescribeClusterResponse]" = Api(
    "DescribeCluster", range(3)
)
# Since version 3 features are in the response.
_VERSIONS: "Api[bodies.ApiVersionsRequest, bodies.ApiVersionsResponse]" = Api(
    "ApiVersions", range(3, 5)
)
_LOG_DIRS: "Api[bodies.DescribeLogDirsRequest, bodies.DescribeLogDirsResponse]" = Api(
    "DescribeLogDirs", range(1, 5)
)
_BROKERS = 1  # an endpoint type of DescribeCluster


class Broker(NamedTuple):
    """A broker of a cluster; a fenced one is registered, but not used."""

    broker_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class Description(NamedTuple):
    """A cluster; controller_id is None while there is none."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[Broker, ...]


class Versions(NamedTuple):
    """What a broker supports: APIs by name, and the levels of features that are in force."""

    apis: Mapping[str, range]
    features: Mapping[str, int]


class LogDir(NamedTuple):
    """A data directory of a broker.

    total_bytes and usable_bytes are those of its file system, None if the broker does not tell;
    error is the name of an error code, "" for none. sizes has the bytes of each partition.
    """

    path: str
    error: str
    total_bytes: int | None
    usable_bytes: int | None
    sizes: Mapping[tuple[str, int], int]


def describe(cluster: Cluster) -> Description:
    """Describe the cluster.

    Raises:
        RequestError: the broker refuses.
        Unreachable: none of the addresses responds.
    """
    body: bodies.DescribeClusterRequest = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": _BROKERS,
        "include_fenced_brokers": True,
    }

    def ask() -> Description:
        address, answer = cluster.ask_any(_CLUSTER, body)
        check(answer["error_code"], f"{address}: description of the cluster")
        controller = answer.get("controller_id", -1)
        brokers = (
            Broker(
                each["broker_id"],
                Address(each["host"], each["port"]),
                each.get("rack"),
                each.get("is_fenced", False),
            )
            for each in answer["brokers"]
        )
        return Description(
            answer["cluster_id"],
            None if controller < 0 else controller,
            tuple(sorted(brokers)),
        )

    return cluster.retried(ask)


def live_brokers(cluster: Cluster) -> dict[int, Address]:
    """Return the addresses of the brokers that serve clients, by id.

    Raises:
        RequestError, Unreachable: as Cluster.metadata.
    """
    return {
        each["node_id"]: Address(each["host"], each["port"])
        for each in cluster.metadata([])["brokers"]
    }


def versions(cluster: Cluster, address: Address) -> Versions:
    """Return what a broker supports.

    Raises:
        RequestError: the broker refuses.
        Unreachable: it does not respond.
        PeerError: it is older than Kafka 2.4, which has no features.
    """
    body: bodies.ApiVersionsRequest = {
        "client_software_name": "polylog",
        "client_software_version": "1",
    }
    answer = cluster.ask(address, _VERSIONS, body)
    check(answer["error_code"], f"{address}: versions of APIs")
    return Versions(
        {
            codec.API_KEYS[each["api_key"]]: range(each["min_version"], each["max_version"] + 1)
            for each in answer["api_keys"]
            if each["api_key"] in codec.API_KEYS
        },
        {each["name"]: each["max_version_level"] for each in answer.get("finalized_features", [])},
    )


def log_dirs(
    cluster: Cluster, address: Address, topics: Mapping[str, Sequence[int]] | None = None
) -> list[LogDir]:
    """Return the data directories of a broker, with the sizes of partitions.

    Args:
        cluster: the cluster.
        address: of the broker.
        topics: the partitions whose sizes are wanted; None: all.

    Raises:
        RequestError: the broker refuses.
        Unreachable: it does not respond.
    """
    body: bodies.DescribeLogDirsRequest = {
        "topics": None
        if topics is None
        else [{"topic": name, "partitions": list(each)} for name, each in topics.items()]
    }
    answer = cluster.ask(address, _LOG_DIRS, body)
    check(answer.get("error_code", 0), f"{address}: its data directories")
    return [
        LogDir(
            each["log_dir"],
            codec.error_of(each["error_code"]).name if each["error_code"] else "",
            _bytes(each.get("total_bytes", -1)),
            _bytes(each.get("usable_bytes", -1)),
            {
                (topic["name"], part["partition_index"]): part["partition_size"]
                for topic in each["topics"]
                for part in topic["partitions"]
                if not part["is_future_key"]
            },
        )
        for each in answer["results"]
    ]


def _bytes(size: int) -> int | None:
    return None if size < 0 else size
