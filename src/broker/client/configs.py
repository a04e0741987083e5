"""The settings of topics, brokers, groups and client metrics (DescribeConfigs and its family)."""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.brokers import live_brokers
from broker.client.connection import Api, RequestT, ResponseT
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.model.address import Address
from broker.model.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from broker.codec import bodies

_DESCRIBE: "Api[bodies.DescribeConfigsRequest, bodies.DescribeConfigsResponse]" = Api(
    "DescribeConfigs", range(1, 5)
)
_ALTER: "Api[bodies.IncrementalAlterConfigsRequest, bodies.IncrementalAlterConfigsResponse]"
_ALTER = Api("IncrementalAlterConfigs", range(2))
_LIST: "Api[bodies.ListConfigResourcesRequest, bodies.ListConfigResourcesResponse]" = Api(
    "ListConfigResources", range(1, 2)
)
_SET, _DELETE = range(2)  # operations of IncrementalAlterConfigs
EVERY_BROKER: Final = ""  # the name of the resource that has the defaults of all brokers
_TYPES: Final = (
    "unknown",
    "boolean",
    "string",
    "int",
    "short",
    "long",
    "double",
    "list",
    "class",
    "password",
)
_SOURCES: Final = (
    "unknown",
    "topic",
    "broker",
    "every-broker",
    "file",
    "default",
    "logger",
    "client-metrics",
    "group",
)
DEFAULT: Final = "default"
# Settings of topics whose value for all topics is one of several of the broker's, in order of
# precedence. Apache Kafka leaves these out of the synonyms of a topic.
_OF_BROKER: Final[Mapping[str, Sequence[str]]] = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
}
# Sources of values that were set while the cluster runs.
DYNAMIC: Final = frozenset({"topic", "broker", "every-broker", "client-metrics", "group"})


class Kind(IntEnum):
    """The types of resources, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32

    @property
    def text(self) -> str:
        """Its name in texts, which is also that of its source."""
        return self.name.lower().replace("_", "-")


class Resource(NamedTuple):
    """What has settings; the name of a broker is its id, or EVERY_BROKER."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """Return it for users."""
        return f"{self.kind.text} {self.name or 'default'}"

    @property
    def own_source(self) -> str:
        """The source of values that were set for it and nothing else."""
        is_of_all = self.kind is Kind.BROKER and self.name == EVERY_BROKER
        return "every-broker" if is_of_all else self.kind.text


class Synonym(NamedTuple):
    """Another place that the value of a setting may come from."""

    name: str
    value: str | None
    source: str


class Setting(NamedTuple):
    """A setting of a resource; value is None for passwords, which no broker tells.

    Attributes:
        name: its name.
        value: in force.
        source: where it was given: topic, broker, every-broker, file, default, group, ...
        kind: the name of its type, "unknown" if the broker does not tell.
        is_sensitive: a password.
        is_read_only: it cannot be altered while the broker runs.
        documentation: "" if the broker does not tell.
        synonyms: in order of precedence.
    """

    name: str
    value: str | None
    source: str
    kind: str
    is_sensitive: bool
    is_read_only: bool
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_configs(
    cluster: Cluster,
    resource: Resource,
    names: Collection[str] | None = None,
    *,
    with_documentation: bool = False,
) -> dict[str, Setting]:
    """Return the settings of a resource by name, sorted; all, or those of `names` that it has.

    Raises:
        RequestError: the resource does not exist, or the broker refuses.
        ConfigError: there is no such broker.
        Unreachable: no broker responds, or the one with that id does not.
    """
    body: bodies.DescribeConfigsRequest = {
        "resources": [
            {
                "resource_type": resource.kind,
                "resource_name": resource.name,
                "configuration_keys": None if names is None else sorted(names),
            }
        ],
        "include_synonyms": True,
        "include_documentation": with_documentation,
    }

    def ask() -> dict[str, Setting]:
        place, answer = _ask(cluster, resource, _DESCRIBE, body)
        [result] = answer["results"]
        check(result["error_code"], _what(place, resource, result["error_message"]))
        found = [_setting(each) for each in result["configs"]]
        return {each.name: each for each in sorted(found)}

    return cluster.retried(ask)


def own_configs(cluster: Cluster, resource: Resource) -> dict[str, str | None]:
    """Return what was set for a resource itself; None is for passwords, which no broker tells.

    Raises:
        RequestError, ConfigError, Unreachable: as describe_configs.
    """
    found = describe_configs(cluster, resource)
    return {name: each.value for name, each in found.items() if each.source == resource.own_source}


def with_broker_values(cluster: Cluster, found: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a topic with the values of the broker that synonyms leave out.

    Nothing is added if the broker does not tell its own settings.

    Raises:
        Unreachable: no broker responds.
    """
    lacking = {
        name: _OF_BROKER[name]
        for name, each in found.items()
        if name in _OF_BROKER and all(other.source == "topic" for other in each.synonyms)
    }
    if not lacking:
        return dict(found)
    broker = Resource(Kind.BROKER, str(min(live_brokers(cluster))))
    names = {name for each in lacking.values() for name in each}
    try:
        values = describe_configs(cluster, broker, names)
    except RequestError:
        return dict(found)
    added = {
        name: tuple(each for other in others if other in values for each in values[other].synonyms)
        for name, others in lacking.items()
    }
    return {
        name: each._replace(synonyms=each.synonyms + added.get(name, ()))
        for name, each in found.items()
    }


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    changes: Mapping[str, str | None],
    *,
    is_only_checked: bool = False,
) -> None:
    """Set settings, or reset those whose value is None; all or nothing.

    Args:
        cluster: the cluster.
        resource: whose settings.
        changes: the values by name.
        is_only_checked: check the change without making it.

    Raises:
        RequestError: INVALID_CONFIG, or the broker refuses.
        ConfigError: there is no such broker.
        Unreachable: no broker responds, or the one with that id does not.
    """
    body: bodies.IncrementalAlterConfigsRequest = {
        "resources": [
            {
                "resource_type": resource.kind,
                "resource_name": resource.name,
                "configs": [
                    {
                        "name": name,
                        "config_operation": _DELETE if value is None else _SET,
                        "value": value,
                    }
                    for name, value in changes.items()
                ],
            }
        ],
        "validate_only": is_only_checked,
    }

    def ask() -> None:
        place, answer = _ask(cluster, resource, _ALTER, body)
        for each in answer["responses"]:
            check(each["error_code"], _what(place, resource, each["error_message"]))

    cluster.retried(ask)


def list_resources(cluster: Cluster, kinds: Sequence[Kind]) -> list[Resource]:
    """Return the resources of these types that have settings of their own or may have them.

    Raises:
        RequestError: the broker refuses.
        PeerError: the broker is older than Kafka 4.1.
        Unreachable: none of the addresses responds.
    """

    def ask() -> list[Resource]:
        body: bodies.ListConfigResourcesRequest = {"resource_types": list(kinds)}
        address, answer = cluster.ask_any(_LIST, body)
        check(answer["error_code"], f"{address}: resources with settings")
        return sorted(
            Resource(Kind(each["resource_type"]), each["resource_name"])
            for each in answer["config_resources"]
        )

    return cluster.retried(ask)


def _ask(
    cluster: Cluster, resource: Resource, api: Api[RequestT, ResponseT], body: RequestT
) -> tuple[Address, ResponseT]:
    """Ask the broker that a resource is, or any; return who answered, and what."""
    if resource.kind is not Kind.BROKER or resource.name == EVERY_BROKER:
        return cluster.ask_any(api, body)
    brokers = {str(number): each for number, each in live_brokers(cluster).items()}
    if resource.name not in brokers:
        raise ConfigError(
            f"{cluster}: there is no broker {resource.name}, only {', '.join(sorted(brokers))}"
        )
    address = brokers[resource.name]
    return address, cluster.ask(address, api, body)


def _what(address: Address, resource: Resource, message: str | None) -> str:
    text = f": {message}" if message else ""
    return f"{address}: settings of {resource}{text}"


def _setting(found: "bodies.DescribeConfigsResponseConfig") -> Setting:
    return Setting(
        found["name"],
        found["value"],
        _name(_SOURCES, found.get("config_source", 0)),
        _name(_TYPES, found.get("config_type", 0)),
        found["is_sensitive"],
        found["read_only"],
        found.get("documentation") or "",
        tuple(
            Synonym(each["name"], each["value"], _name(_SOURCES, each["source"]))
            for each in found.get("synonyms", [])
        ),
    )


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else names[0]
