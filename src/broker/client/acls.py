"""The access control entries of a running broker, by the numbers of Kafka's enumerations."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check

_ANY: Final = 1
_VERSIONS: Final = range(1, 4)  # version 1 has the type of a pattern
_CREATE: Final[Api[Any, Any]] = Api("CreateAcls", _VERSIONS)
_DELETE: Final[Api[Any, Any]] = Api("DeleteAcls", _VERSIONS)
_DESCRIBE: Final[Api[Any, Any]] = Api("DescribeAcls", _VERSIONS)


class Entry(NamedTuple):
    """One entry."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


def create(cluster: Cluster, entries: Sequence[Entry]) -> None:
    """Create entries; RequestError if one is refused."""
    rows = [
        {
            "resource_type": each.resource_type,
            "resource_name": each.resource_name,
            "resource_pattern_type": each.pattern_type,
            "principal": each.principal,
            "host": each.host,
            "operation": each.operation,
            "permission_type": each.permission,
        }
        for each in entries
    ]
    address, answers = cluster.ask_any(_CREATE, {"creations": rows})
    for answer in answers["results"]:
        check(answer["error_code"], f"{address}: {answer['error_message']}")


def delete(cluster: Cluster, entries: Sequence[Entry]) -> int:
    """Delete entries; return how many there were. RequestError if that is refused."""
    rows = [
        {
            "resource_type_filter": each.resource_type,
            "resource_name_filter": each.resource_name,
            "pattern_type_filter": each.pattern_type,
            "principal_filter": each.principal,
            "host_filter": each.host,
            "operation": each.operation,
            "permission_type": each.permission,
        }
        for each in entries
    ]
    count = 0
    address, answers = cluster.ask_any(_DELETE, {"filters": rows})
    for answer in answers["filter_results"]:
        check(answer["error_code"], f"{address}: {answer['error_message']}")
        count += len(answer["matching_acls"])
    return count


def entries(cluster: Cluster) -> list[Entry]:
    """Return all entries; RequestError if that is refused."""
    body: dict[str, Any] = {
        "resource_type_filter": _ANY,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }
    address, answer = cluster.ask_any(_DESCRIBE, body)
    check(answer["error_code"], f"{address}: {answer['error_message']}")
    return [
        Entry(
            resource["resource_type"],
            resource["resource_name"],
            resource["pattern_type"],
            each["principal"],
            each["host"],
            each["operation"],
            each["permission_type"],
        )
        for resource in answer["resources"]
        for each in resource["acls"]
    ]
