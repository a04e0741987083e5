"""The access policy of a topic, which the original keeps with it, as ACLs of its name.

    auth_policy=open         none of these: the broker's other ACLs and settings decide
    auth_policy=deny_write   everyone may read it, nobody write
    auth_policy=deny_read    everyone may write it, nobody read
    auth_policy=acl          who is in read_acl may read it, who is in write_acl write, nobody else

They are entries as those of Kafka's tools, which show and change them; super users may do
everything all the same. What is shown as the policy is made from the entries that there are.
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from broker.core.security import acl_changes
from broker.core.security.acls import (
    ANYONE,
    ANYWHERE,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.core.session import Session
from broker.model.principal import USER
from broker.protocols.cursus import permissions
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import Command

_OPEN: Final = "open"
_BY_LIST: Final = "acl"
_LISTS: Final = {"read_acl": Operation.READ, "write_acl": Operation.WRITE}
_DENIED: Final = {"deny_write": Operation.WRITE, "deny_read": Operation.READ}
_NO_AUTHORIZER: Final = "this broker has no authorizer (authorizer.class.name)"
_OPERATIONS: Final = tuple(_LISTS.values())
_PREFIX: Final = f"{USER}:"


class Access(NamedTuple):
    """What CREATE asks for: the entries that the topic is to have."""

    entries: frozenset[Acl]


def asked(command: Command, name: str) -> Access | None:
    """Return the access that a CREATE asks for, None for no change; RefusedError if invalid."""
    policy = command.get("auth_policy")
    lists = {key: command.get(key) for key in _LISTS}
    if policy not in {"", _OPEN, _BY_LIST, *_DENIED}:
        raise RefusedError("invalid_topic_policy", auth_policy=policy)
    if any(lists.values()) != (policy == _BY_LIST):
        text = "auth_policy=acl needs read_acl or write_acl, which need it"
        raise RefusedError("invalid_topic_policy", detail=text)
    return Access(frozenset(_entries(name, policy, lists))) if policy else None


def _entries(name: str, policy: str, lists: dict[str, str]) -> Iterator[Acl]:
    topic = Pattern(ResourceType.TOPIC, name, PatternType.LITERAL)
    denied = _DENIED.get(policy)
    if denied is not None:
        for each in _OPERATIONS:
            # Where there is an entry, only what is allowed is.
            permission = Permission.DENY if each is denied else Permission.ALLOW
            yield Acl(topic, ANYONE, ANYWHERE, each, permission)
    for key, operation in _LISTS.items():
        for user in filter(None, lists[key].split(",")):
            yield Acl(topic, f"{_PREFIX}{user}", ANYWHERE, operation, Permission.ALLOW)


def check(session: Session, command: Command, wanted: Access | None) -> None:
    """Raise RefusedError unless the client may make such a policy, and it would be enforced."""
    if wanted is None or (not wanted.entries and session.broker.security.authorizer is None):
        return
    if session.broker.security.authorizer is None:
        raise RefusedError(
            "unsupported_topic_policy",
            policy="auth_policy",
            detail=_NO_AUTHORIZER,
        )
    permissions.check(session, command.keyword, Operation.ALTER, ResourceType.CLUSTER)


async def apply(session: Session, name: str, wanted: Access | None) -> None:
    """Have the topic the entries of the policy, and no other ones of a policy."""
    if wanted is None or session.broker.security.authorizer is None:
        return
    before = _present(session, name)
    known = session.broker.metadata
    await acl_changes.create(known, wanted.entries - before)
    await acl_changes.delete(known, before - wanted.entries)


def policy_of(session: Session, name: str) -> dict[str, str]:
    """Return the fields of a topic's policy that are about access, in the order of responses."""
    present = _present(session, name)
    policy = _OPEN
    for named, operation in _DENIED.items():
        if any(each.operation is operation and _is_denial(each) for each in present):
            policy = named
            break
    else:
        policy = _BY_LIST if present else _OPEN
    lists = dict.fromkeys(_LISTS, "")
    if policy == _BY_LIST:
        lists = {key: _users(present, operation) for key, operation in _LISTS.items()}
    return {"auth_policy": policy, **lists}


def _present(session: Session, name: str) -> frozenset[Acl]:
    """Return the entries of a policy that a topic has."""
    authorizer = session.broker.security.authorizer
    if authorizer is None:
        return frozenset()
    return frozenset(
        each
        for each in authorizer.literal(ResourceType.TOPIC, name)
        if each.host == ANYWHERE and each.operation in _OPERATIONS
    )


def _is_denial(acl: Acl) -> bool:
    return acl.permission is Permission.DENY and acl.principal == ANYONE


def _users(present: Collection[Acl], operation: Operation) -> str:
    names = (
        each.principal.removeprefix(_PREFIX)
        for each in present
        if each.operation is operation and each.permission is Permission.ALLOW
    )
    return ",".join(sorted(names))
