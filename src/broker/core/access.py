"""Asks the authorizer for a client: may it do this? Every protocol refuses by these functions.

`check` is for what a request names: it raises the error that says which kind of resource was
refused, and the audit has a record of it. `may` is for what is only left out of a list.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from broker._native.log import permissions
from broker.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from broker.core.security.audit import Decision, Kind, Peer
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_id, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError

_CODES: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
# What the native paths serve, as soon as they know that it is allowed.
_NATIVE: Final = {
    Operation.READ: permissions.READ,
    Operation.WRITE: permissions.WRITE,
    Operation.DESCRIBE: permissions.DESCRIBE,
}


_KNOWN: Final = frozenset((*_NATIVE, Operation.CLUSTER_ACTION))


class Need(NamedTuple):
    """An operation that a client must be allowed."""

    operation: Operation
    resource: ResourceType
    # The name of the resource in a request; it returns None for a request that names none. Without
    # this the handler checks the resources that a request names.
    name: Callable[[Any], str | None] | None = None


def on_cluster(operation: Operation) -> Need:
    """Need an operation on the cluster."""
    return Need(operation, ResourceType.CLUSTER, lambda _: CLUSTER_NAME)


def begin(session: Session, protocol: str, request: str) -> None:
    """Keep what the audit says of the request that a protocol begins to serve."""
    if session.broker.security.authorizer is not None:
        session.protocol, session.request = protocol, request


def check_needs(session: Session, needs: Iterable[Need], request: object) -> None:
    """Raise the error of the first need of a request that is not met, of those with names."""
    if session.broker.security.authorizer is None:
        return
    for need in needs:
        name = None if need.name is None else need.name(request)
        if name is not None:
            check(session, need.operation, need.resource, name)


def per_step(session: Session, count: int) -> int:
    """Return how many names are served in a step that serves `count` where there are no ACLs.

    A decision that is not known yet takes longer than the rest of what is done for a name.
    """
    return count if session.broker.security.authorizer is None else max(count // 4, 1)


def may(session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
    """Return whether a client may do something with a resource."""
    authorizer = session.broker.security.authorizer
    return authorizer is None or authorizer.allows(
        session.principal, session.client_host, operation, resource, name
    )


def check(
    session: Session,
    operation: Operation,
    resource: ResourceType,
    name: str,
    *,
    detail: str = "",
) -> None:
    """Raise RequestError unless a client may do something with a resource.

    `detail` says for the audit what is changed.
    """
    authorizer = session.broker.security.authorizer
    if authorizer is None:
        return
    is_allowed = authorizer.allows(
        session.principal, session.client_host, operation, resource, name
    )
    is_recorded = _record(session, operation, resource, name, is_allowed=is_allowed, detail=detail)
    if not (is_allowed and is_recorded):
        raise RequestError(_CODES[resource])
    if operation in _KNOWN:
        _let_native_paths_know(session, operation, resource, name)


def may_any(session: Session, operation: Operation, resource: ResourceType) -> bool:
    """Return whether a client may do something with some resource of a type."""
    authorizer = session.broker.security.authorizer
    return authorizer is None or authorizer.allows_any(
        session.principal, session.client_host, operation, resource
    )


def may_cluster(session: Session, operation: Operation) -> bool:
    """Return whether a client may do something with the cluster."""
    return may(session, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def check_cluster(session: Session, operation: Operation, *, detail: str = "") -> None:
    """Raise RequestError unless a client may do something with the cluster."""
    check(session, operation, ResourceType.CLUSTER, CLUSTER_NAME, detail=detail)


def check_topic(session: Session, operation: Operation, name: str) -> None:
    """Raise RequestError unless a client may do something with a topic, which need not exist."""
    check(session, operation, ResourceType.TOPIC, name)


def may_read(session: Session, name: str) -> bool:
    """Return whether a client may read a topic; to be asked again for what goes on for long."""
    return may(session, Operation.READ, ResourceType.TOPIC, name)


def may_describe(session: Session, topic: Topic) -> bool:
    """Return whether a topic is shown to a client in lists."""
    return may(session, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)


def check_group(session: Session, operation: Operation, group_id: str) -> None:
    """Raise RequestError unless a client may do something with a group."""
    check(session, operation, ResourceType.GROUP, group_id)


def check_creation(session: Session, name: str) -> None:
    """Raise RequestError unless a client may create topics, or one of this name."""
    if may_cluster(session, Operation.CREATE):
        check_cluster(session, Operation.CREATE, detail=f"topic {name}")
    else:
        check_topic(session, Operation.CREATE, name)


def topic_named(session: Session, operation: Operation, name: str) -> Topic:
    """Return the topic of a name; whether it exists is not told to who may not ask."""
    check(session, operation, ResourceType.TOPIC, name)
    return topic_by_name(session.broker.topics, name)


def topic_of_id(session: Session, operation: Operation, topic_id: bytes) -> Topic:
    """Return the topic of an id."""
    topic = topic_by_id(session.broker.topics, topic_id)
    check(session, operation, ResourceType.TOPIC, topic.name)
    return topic


def view(session: Session) -> object:
    """Return a key that is equal for all clients to whom the same resources are shown."""
    authorizer = session.broker.security.authorizer
    return None if authorizer is None else authorizer.view(session.principal, session.client_host)


def _record(
    session: Session,
    operation: Operation,
    resource: ResourceType,
    name: str,
    *,
    is_allowed: bool,
    detail: str,
) -> bool:
    """Tell the audit; return whether the request may go on."""
    audit = session.broker.security.audit
    if audit is None:
        return True
    peer = Peer(session.client_host, session.listener.name, session.protocol)
    return audit(
        Decision(
            peer,
            str(session.principal),
            session.request,
            operation.title,
            resource.title,
            name,
            is_allowed,
            detail,
        )
    )


def _let_native_paths_know(
    session: Session, operation: Operation, resource: ResourceType, name: str
) -> None:
    """Let them serve the next such request, unless the audit has to have a record of each."""
    audit = session.broker.security.audit
    known = session.permissions
    is_recorded = audit is not None and (audit.wants(Kind.ACCESS) or audit.wants(Kind.QUESTION))
    if known is None or is_recorded:
        return
    is_topic = resource is ResourceType.TOPIC and session.broker.topics.get(name) is not None
    if is_topic and operation in _NATIVE:
        known.allow(name, _NATIVE[operation])
    elif resource is ResourceType.TRANSACTIONAL_ID and operation is Operation.WRITE:
        known.allow_transaction(name)
    elif operation is Operation.CLUSTER_ACTION:
        known.allow_copies()
