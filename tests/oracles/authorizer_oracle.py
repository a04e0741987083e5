"""Decides by reading every entry: Kafka's rules for ACLs, as its documentation states them.

Plain and slow. It shares the entries' types with the authorizer, and nothing else.
"""

from collections.abc import Collection, Sequence

from broker.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def is_for(acl: Acl, resource: ResourceType, name: str) -> bool:
    if acl.pattern.resource_type != resource:
        return False
    if acl.pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.pattern.name)
    return acl.pattern.name in (name, "*")


def is_about(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def allows(
    acls: Sequence[Acl],
    super_users: Collection[str],
    *,
    allows_unlisted: bool,
    asked: tuple[str, str, Operation, ResourceType, str],
) -> bool:
    principal, host, operation, resource, name = asked
    if principal in super_users:
        return True
    listed = [acl for acl in acls if is_for(acl, resource, name)]
    if not listed:
        return allows_unlisted
    mine = [acl for acl in listed if is_about(acl, principal, host)]
    denied = {acl.operation for acl in mine if acl.permission == Permission.DENY}
    allowed = {acl.operation for acl in mine if acl.permission == Permission.ALLOW}
    if denied & {operation, Operation.ALL}:
        return False
    return bool(allowed & ({operation, Operation.ALL} | IMPLIED.get(operation, set())))


def allows_any(
    acls: Sequence[Acl], names: Collection[str], asked: tuple[str, str, Operation, ResourceType]
) -> bool:
    """Try all names: one is allowed by an entry for this very operation, and not denied."""
    principal, host, operation, resource = asked
    mine = [acl for acl in acls if is_about(acl, principal, host)]
    mine = [acl for acl in mine if acl.operation in (operation, Operation.ALL)]
    for name in names:
        found = {acl.permission for acl in mine if is_for(acl, resource, name)}
        if found == {Permission.ALLOW}:
            return True
    return False
