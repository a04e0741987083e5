"""Topics made and looked at by a client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.client.metadata import Cluster
from broker.client.retry import check, patiently
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CLIENT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from broker.codec import Fields

_CREATE_VERSIONS = range(4, 8)  # 4: the broker chooses how many replicas
_DESCRIBE_CONFIGS_VERSIONS = range(1, 5)
_TOPIC: Final = 2  # of DescribeConfigs' kinds of resources
_BROKERS_CHOICE: Final = -1


def create_topic(
    cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> bool:
    """Make a topic; return whether it was not there before.

    Args:
        cluster: where.
        name: of the topic.
        partitions: how many; a topic that is there already keeps those that it has.
        configs: its settings, by Kafka's names.

    Raises:
        RequestError: the broker refuses.
        Unreachable: none of the addresses answers.
    """
    body: Fields = {
        "topics": [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": _BROKERS_CHOICE,
                "assignments": [],
                "configs": [{"name": key, "value": each} for key, each in (configs or {}).items()],
            }
        ],
        "timeout_ms": CLIENT_TIMEOUT_SECONDS * 1000,
    }

    def ask() -> bool:
        client, answer = cluster.ask_any("CreateTopics", _CREATE_VERSIONS, body)
        [topic] = answer["topics"]
        text = f": {topic['error_message']}" if topic["error_message"] else ""
        try:
            check(topic["error_code"], f"{client.address}: topic {name!r}{text}")
        except RequestError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            raise
        return True

    return patiently(ask, give_up_seconds=cluster.give_up_seconds)


def topic_config(cluster: Cluster, name: str, setting: str) -> str | None:
    """Return the value of one setting of a topic; None where the broker does not tell it.

    Raises:
        RequestError: there is no such topic, or the broker refuses.
        Unreachable: none of the addresses answers.
    """
    body: Fields = {
        "resources": [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": [setting]}
        ]
    }

    def ask() -> str | None:
        client, answer = cluster.ask_any("DescribeConfigs", _DESCRIBE_CONFIGS_VERSIONS, body)
        [result] = answer["results"]
        check(result["error_code"], f"{client.address}: settings of topic {name!r}")
        values = {each["name"]: each["value"] for each in result["configs"]}
        value: str | None = values.get(setting)
        return value

    return patiently(ask, give_up_seconds=cluster.give_up_seconds)
