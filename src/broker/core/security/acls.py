"""Access control lists as Kafka has them: entries, filters over entries, and their stored form.

An entry allows or denies a principal, from a host, an operation on the resources that a pattern
names. The numbers of the enumerations are Kafka's. Filters say None where Kafka says ANY.
"""

import json
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from broker.model.errors import StorageError
from broker.model.identifiers import ID_BYTES, id_to_text

ANYONE = "User:*"  # the principal of an entry that is for everyone
ANYWHERE = "*"  # its host, of one that is for every address
ANY_NAME = "*"  # the name of a literal pattern that is for all resources of a type
CLUSTER_NAME = "kafka-cluster"  # of the only resource of its type


class _Named(IntEnum):
    @property
    def title(self) -> str:
        """The name as Kafka's tools print it, such as DescribeConfigs."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(_Named):
    """What an operation is on."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Named):
    """How a pattern names resources."""

    LITERAL = 3  # by its whole name, or all of them by a star
    PREFIXED = 4  # by the beginning of its name


class Operation(_Named):
    """What is done; a bit field of operations has bit n for operation n."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Named):
    """Whether an entry is against or for it."""

    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """Which resources an entry is for."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class Acl(NamedTuple):
    """One entry."""

    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        """Describe it in one line."""
        (resource_type, name, pattern_type), principal, host, operation, permission = self
        return (
            f"{permission.title} {principal} from {host}: {operation.title} on"
            f" {resource_type.title}:{pattern_type.name}:{name}"
        )

    @property
    def key(self) -> str:
        """The name of its entry in the metadata store: an entry that is made twice is once there.

        It follows from all fields.
        """
        from hashlib import sha256  # noqa: PLC0415 - OpenSSL's: a start needs none of it

        return id_to_text(sha256(self.value).digest()[:ID_BYTES])

    @property
    def value(self) -> bytes:
        """Its stored form."""
        (resource_type, name, pattern_type), principal, host, operation, permission = self
        fields = {
            "version": 1,
            "resource_type": resource_type.name,
            "name": name,
            "pattern_type": pattern_type.name,
            "principal": principal,
            "host": host,
            "operation": operation.name,
            "permission": permission.name,
        }
        return json.dumps(fields).encode()


def parse(name: str, value: bytes) -> Acl:
    """Return the entry of a stored form; StorageError if it is damaged or of a newer version."""
    try:
        match json.loads(value):
            case {
                "version": 1,
                "resource_type": str(resource_type),
                "name": str(resource),
                "pattern_type": str(pattern_type),
                "principal": str(principal),
                "host": str(host),
                "operation": str(operation),
                "permission": str(permission),
            }:
                return Acl(
                    Pattern(ResourceType[resource_type], resource, PatternType[pattern_type]),
                    principal,
                    host,
                    Operation[operation],
                    Permission[permission],
                )
    except (ValueError, KeyError):
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged access control entry {name}: {value!r}")


class Filter(NamedTuple):
    """Which entries are asked for; None: any.

    `is_match` asks for the patterns that are for the resource of this name: its literal one, those
    of its prefixes, and the star.
    """

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern_type: PatternType | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None
    is_match: bool = False

    def matches(self, acl: Acl) -> bool:
        """Return whether an entry is one of those."""
        pattern = acl.pattern
        return (
            self.resource_type in (None, pattern.resource_type)
            and self.pattern_type in (None, pattern.pattern_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
            and self._matches_name(pattern)
        )

    def _matches_name(self, pattern: Pattern) -> bool:
        if self.name is None or self.name == pattern.name:
            return True
        if not self.is_match:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == ANY_NAME


# Operations that also allow another one; a denial never reaches further than its own operation.
_ALLOWED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
ALLOWING = {
    operation: frozenset((operation, Operation.ALL)) | _ALLOWED_BY.get(operation, frozenset())
    for operation in Operation
}
DENYING = {operation: frozenset((operation, Operation.ALL)) for operation in Operation}


class AclIndex:
    """Entries by what they are for; which of them decide is known without looking at the others."""

    def __init__(self, plain_host: Callable[[str], str]) -> None:
        """Begin without entries; `plain_host` gives one text to all forms of an address."""
        self._plain_host = plain_host
        self._literal: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        self._prefixed: dict[tuple[ResourceType, str], _ByPrincipal] = {}
        # How many prefixes of each length there are, by type.
        self._lengths: dict[ResourceType, dict[int, int]] = {each: {} for each in ResourceType}
        self.hosts = 0  # entries that are for one address

    def add(self, acl: Acl) -> None:
        """Add an entry, which is not here."""
        acl = acl._replace(host=self._plain_host(acl.host))
        self.hosts += acl.host != ANYWHERE
        patterns, key = self._place(acl)
        if key not in patterns:
            patterns[key] = {}
            if patterns is self._prefixed:
                lengths = self._lengths[key[0]]
                lengths[len(key[1])] = lengths.get(len(key[1]), 0) + 1
        patterns[key].setdefault(acl.principal, []).append(acl)

    def remove(self, acl: Acl) -> None:
        """Remove an entry, which is here."""
        acl = acl._replace(host=self._plain_host(acl.host))
        self.hosts -= acl.host != ANYWHERE
        patterns, key = self._place(acl)
        acls = patterns[key][acl.principal]
        acls.remove(acl)
        if acls:
            return
        del patterns[key][acl.principal]
        if patterns[key]:
            return
        del patterns[key]
        if patterns is self._prefixed:
            lengths = self._lengths[key[0]]
            lengths[len(key[1])] -= 1
            if not lengths[len(key[1])]:
                del lengths[len(key[1])]

    def decide(
        self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool | None:
        """Return whether it is allowed; None: no entry is for this resource.

        `host` is an address in the form of `plain_host`.
        """
        is_known = is_allowed = False
        allowing, denying = ALLOWING[operation], DENYING[operation]
        for by_principal in self._of(resource, name):
            is_known = True
            for who in (principal, ANYONE):
                for acl in by_principal.get(who, ()):
                    if acl.host not in (ANYWHERE, host):
                        continue
                    if acl.permission is Permission.DENY:
                        if acl.operation in denying:
                            return False
                    elif acl.operation in allowing:
                        is_allowed = True
        return is_allowed if is_known else None

    def decide_any(
        self, principal: str, host: str, operation: Operation, resource: ResourceType
    ) -> bool:
        """Return whether it is allowed on some resource of a type, also one that does not exist.

        That is so if an entry allows it whose pattern is not within one of an entry that denies it.
        Operations that allow this one do not count, as in Kafka.
        """
        own = DENYING[operation]
        found: dict[tuple[Permission, PatternType], set[str]] = {
            (permission, pattern): set() for permission in Permission for pattern in PatternType
        }
        for pattern_type, patterns in (
            (PatternType.LITERAL, self._literal),
            (PatternType.PREFIXED, self._prefixed),
        ):
            for (resource_type, name), by_principal in patterns.items():
                if resource_type is not resource:
                    continue
                for who in (principal, ANYONE):
                    for acl in by_principal.get(who, ()):
                        if acl.host in (ANYWHERE, host) and acl.operation in own:
                            found[acl.permission, pattern_type].add(name)
        literal_denials = found[Permission.DENY, PatternType.LITERAL]
        denied_prefixes = found[Permission.DENY, PatternType.PREFIXED]
        if ANY_NAME in literal_denials:
            return False
        if ANY_NAME in found[Permission.ALLOW, PatternType.LITERAL]:
            return True
        candidates = found[Permission.ALLOW, PatternType.LITERAL] - literal_denials
        candidates |= found[Permission.ALLOW, PatternType.PREFIXED]
        return any(
            not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))
            for name in candidates
        )

    def literal(self, resource: ResourceType, name: str) -> list[Acl]:
        """Return the entries for exactly this name."""
        by_principal = self._literal.get((resource, name), {})
        return [acl for acls in by_principal.values() for acl in acls]

    def _of(self, resource: ResourceType, name: str) -> "list[_ByPrincipal]":
        """Return the entries of all patterns that are for a resource."""
        literal, prefixed = self._literal, self._prefixed
        found = [literal.get((resource, name)), literal.get((resource, ANY_NAME))]
        found += [prefixed.get((resource, name[:length])) for length in self._lengths[resource]]
        return [each for each in found if each is not None]

    def _place(
        self, acl: Acl
    ) -> "tuple[dict[tuple[ResourceType, str], _ByPrincipal], tuple[ResourceType, str]]":
        pattern = acl.pattern
        is_literal = pattern.pattern_type is PatternType.LITERAL
        key = pattern.resource_type, pattern.name
        return (self._literal if is_literal else self._prefixed), key


_ByPrincipal = dict[str, list[Acl]]
