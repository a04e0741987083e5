"""What commands need, and the words in which they are refused: Cursus's own.

ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=write topic=t
ERROR: NOT_AUTHORIZED_FOR_OPERATION command=JOIN_GROUP permission=group
"""

from collections.abc import Iterable
from typing import Final

from broker.core import access
from broker.core.access import Need
from broker.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import RequestError
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import TRANSACTION_NAMES, Command, is_pattern

_PERMISSIONS: Final = {
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transaction",
    ResourceType.CLUSTER: "admin",
}


def on_topic(operation: Operation) -> Need:
    """Need an operation on the topic of a command; a pattern leaves out topics itself."""
    return Need(operation, ResourceType.TOPIC, _topic)


def on_group(operation: Operation) -> Need:
    """Need an operation on the group of a command."""
    return Need(operation, ResourceType.GROUP, _group)


def on_transaction(operation: Operation) -> Need:
    """Need an operation on the transactional id of a command."""
    return Need(operation, ResourceType.TRANSACTIONAL_ID, _transactional_id)


def check_needs(session: Session, needs: Iterable[Need], command: Command) -> None:
    """Raise RefusedError for the first need of a command that is not met.

    A command without the name that it needs is refused by its handler.
    """
    if session.broker.security.authorizer is None:
        return
    for need in needs:
        name = None if need.name is None else need.name(command)
        if name is not None:
            check(session, command.keyword, need.operation, need.resource, name)


def check(
    session: Session,
    keyword: str,
    operation: Operation,
    resource: ResourceType,
    name: str = CLUSTER_NAME,
) -> None:
    """Raise RefusedError unless a client may do something with a resource."""
    try:
        access.check(session, operation, resource, name)
    except RequestError:
        raise _refusal(keyword, operation, resource, name) from None


def check_creation(session: Session, keyword: str, name: str) -> None:
    """Raise RefusedError unless a client may create a topic."""
    try:
        access.check_creation(session, name)
    except RequestError:
        raise _refusal(keyword, Operation.CREATE, ResourceType.TOPIC, name) from None


def check_read(session: Session, keyword: str, topic: str, group: str) -> None:
    """Raise RefusedError unless a client may read a topic, as a group if that is not empty."""
    check(session, keyword, Operation.READ, ResourceType.TOPIC, topic)
    if group:
        check(session, keyword, Operation.READ, ResourceType.GROUP, group)


def _refusal(keyword: str, operation: Operation, resource: ResourceType, name: str) -> RefusedError:
    if resource is ResourceType.TOPIC:
        word = operation.name.lower()
        return RefusedError("NOT_AUTHORIZED_FOR_TOPIC", operation=word, topic=name)
    permission = _PERMISSIONS[resource]
    return RefusedError("NOT_AUTHORIZED_FOR_OPERATION", command=keyword, permission=permission)


def _topic(command: Command) -> str | None:
    name = command.get("topic")
    return None if not name or is_pattern(name) else name


def _group(command: Command) -> str | None:
    return command.get("group") or None


def _transactional_id(command: Command) -> str | None:
    return next(filter(None, map(command.get, TRANSACTION_NAMES)), None)
