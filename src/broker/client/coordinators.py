"""The coordinator of a group or a transactional id."""

from typing import TYPE_CHECKING, Final

from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.model.address import Address

if TYPE_CHECKING:
    from broker.codec import bodies

GROUP: Final = 0  # key types of FindCoordinator
TRANSACTION: Final = 1

_FIND: "Api[bodies.FindCoordinatorRequest, bodies.FindCoordinatorResponse]" = Api(
    "FindCoordinator", range(1, 4)
)
_KIND_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}


def coordinator(cluster: Cluster, key: str, kind: int) -> Address:
    """Return the address of the broker that coordinates a key.

    Raises:
        RequestError: the broker refuses, or the coordinator is not available yet.
        Unreachable: none of the addresses responds.
    """
    body: bodies.FindCoordinatorRequest = {"key": key, "key_type": kind}
    address, answer = cluster.ask_any(_FIND, body)
    check(answer["error_code"], f"{address}: the coordinator of {_KIND_NAMES[kind]} {key!r}")
    return Address(answer["host"], answer["port"])
