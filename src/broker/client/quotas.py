"""Quotas of users and client ids (KIP-546)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check

if TYPE_CHECKING:
    from broker.codec import bodies

Entity = Mapping[str, str | None]  # user, client-id or ip → its name; None: the default of all
_DESCRIBE: "Api[bodies.DescribeClientQuotasRequest, bodies.DescribeClientQuotasResponse]" = Api(
    "DescribeClientQuotas", range(2)
)
_ALTER: "Api[bodies.AlterClientQuotasRequest, bodies.AlterClientQuotasResponse]" = Api(
    "AlterClientQuotas", range(2)
)
_EXACT: Final = 0  # match types of DescribeClientQuotas
_DEFAULT: Final = 1


def describe_quotas(cluster: Cluster, entity: Entity) -> dict[str, float]:
    """Return the quotas that were set for exactly this entity.

    Raises:
        RequestError: the broker refuses.
        Unreachable: none of the addresses responds.
    """
    body: bodies.DescribeClientQuotasRequest = {
        "components": [
            {
                "entity_type": kind,
                "match_type": _DEFAULT if name is None else _EXACT,
                "match": name,
            }
            for kind, name in sorted(entity.items())
        ],
        "strict": True,
    }

    def ask() -> dict[str, float]:
        address, answer = cluster.ask_any(_DESCRIBE, body)
        check(answer["error_code"], f"{address}: quotas")
        return {
            each["key"]: each["value"]
            for entry in answer["entries"] or ()
            for each in entry["values"]
        }

    return cluster.retried(ask)


def alter_quotas(
    cluster: Cluster,
    entity: Entity,
    changes: Mapping[str, float | None],
    *,
    is_only_checked: bool = False,
) -> None:
    """Set quotas of an entity, or remove those whose value is None.

    Raises:
        RequestError: a quota is unknown, or the broker refuses.
        Unreachable: none of the addresses responds.
    """
    body: bodies.AlterClientQuotasRequest = {
        "entries": [
            {
                "entity": [
                    {"entity_type": kind, "entity_name": name}
                    for kind, name in sorted(entity.items())
                ],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in changes.items()
                ],
            }
        ],
        "validate_only": is_only_checked,
    }

    def ask() -> None:
        address, answer = cluster.ask_any(_ALTER, body)
        for each in answer["entries"]:
            text = f": {each['error_message']}" if each["error_message"] else ""
            check(each["error_code"], f"{address}: quotas{text}")

    cluster.retried(ask)
