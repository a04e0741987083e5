"""What an API needs, as in Kafka's table of ACLs; authorized operations as bit fields (KIP-430).

Each row of the table of APIs has its needs. Those with a `name` are checked before the handler,
which checks the others, for each resource that the request names.
"""

from collections.abc import Iterable
from typing import Final

from broker.core import access
from broker.core.access import Need, on_cluster
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session


def on_group(operation: Operation) -> Need:
    """Need an operation on the group of the request."""
    return Need(operation, ResourceType.GROUP, lambda body: str(body["group_id"]))


def on_transaction(operation: Operation) -> Need:
    """Need an operation on the transactional id of the request."""
    return Need(
        operation, ResourceType.TRANSACTIONAL_ID, lambda body: str(body["transactional_id"])
    )


def on_each(operation: Operation, *resources: ResourceType) -> tuple[Need, ...]:
    """Need an operation on resources of these types, each of which the handler checks."""
    return tuple(Need(operation, resource) for resource in resources)


__all__ = ["NOT_ASKED", "Need", "authorized", "on_cluster", "on_each", "on_group", "on_transaction"]

NOT_ASKED: Final = -(1 << 31)
_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_ALL: Final = {resource: _bits(operations) for resource, operations in _OPERATIONS.items()}


def authorized(session: Session, resource: ResourceType, name: str, *, is_asked: bool) -> int:
    """Return what a client may do with a resource, if it asks for that."""
    if not is_asked:
        return NOT_ASKED
    if session.broker.security.authorizer is None:
        return _ALL[resource]
    return _bits(
        operation
        for operation in _OPERATIONS[resource]
        if access.may(session, operation, resource, name)
    )
