"""Creation of topics, and their settings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.codec import error_named
from broker.model.limits import CLIENT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from broker.codec import bodies

# Since version 4 the replication factor may be the broker's default.
_CREATE_TOPICS: "Api[bodies.CreateTopicsRequest, bodies.CreateTopicsResponse]" = Api(
    "CreateTopics", range(4, 8)
)
_DESCRIBE_CONFIGS: "Api[bodies.DescribeConfigsRequest, bodies.DescribeConfigsResponse]" = Api(
    "DescribeConfigs", range(1, 5)
)
_TOPIC: Final = 2  # a resource type of DescribeConfigs
_BROKER_DEFAULT: Final = -1
_EXISTS: Final = error_named("TOPIC_ALREADY_EXISTS").code


def create_topic(
    cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> bool:
    """Create a topic; return False if it exists already.

    Args:
        cluster: the cluster.
        name: of the topic.
        partitions: the number of partitions; an existing topic is not changed.
        configs: its settings, by Kafka's names.

    Raises:
        RequestError: the broker refuses.
        Unreachable: none of the addresses responds.
    """
    body: bodies.CreateTopicsRequest = {
        "topics": [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": _BROKER_DEFAULT,
                "assignments": [],
                "configs": [{"name": key, "value": each} for key, each in (configs or {}).items()],
            }
        ],
        "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
    }

    def ask() -> bool:
        address, answer = cluster.ask_any(_CREATE_TOPICS, body)
        [topic] = answer["topics"]
        text = f": {topic['error_message']}" if topic["error_message"] else ""
        if topic["error_code"] == _EXISTS:
            return False
        check(topic["error_code"], f"{address}: topic {name!r}{text}")
        return True

    return cluster.retried(ask)


def topic_config(cluster: Cluster, name: str, setting: str) -> str | None:
    """Return the value of one setting of a topic; None if the broker does not return it.

    Raises:
        RequestError: the topic does not exist, or the broker refuses.
        Unreachable: none of the addresses responds.
    """
    body: bodies.DescribeConfigsRequest = {
        "resources": [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": [setting]}
        ]
    }

    def ask() -> str | None:
        address, answer = cluster.ask_any(_DESCRIBE_CONFIGS, body)
        [result] = answer["results"]
        check(result["error_code"], f"{address}: settings of topic {name!r}")
        return {each["name"]: each["value"] for each in result["configs"]}.get(setting)

    return cluster.retried(ask)
