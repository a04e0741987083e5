"""Access control entries and filters over them as the APIs 29 to 31 have them.

Every enumeration has 0 for unknown and 1 for any. Kafka's broker closes the connection for the
former, and answers the latter, where it makes no sense, with an error of its own: both are ours.
"""

from collections.abc import Iterable
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

from broker.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.core.session import Session
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.security_limits import AUDIT_TEXT_CHARACTERS_MAX

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.security.authorizer import Authorizer

_ANY: Final = 1
_MATCH: Final = 2  # of pattern types
_ENTRIES_IN_DETAIL: Final = AUDIT_TEXT_CHARACTERS_MAX // 16  # one has more characters than that
_EnumT = TypeVar("_EnumT", bound=IntEnum)

NO_AUTHORIZER: Final = (
    "this broker has no authorizer: every client that can connect may do everything"
    " (authorizer.class.name)"
)


def authorizer(session: Session) -> "Authorizer":
    """Return the authorizer; RequestError without one: no entry would be enforced."""
    found = session.broker.security.authorizer
    if found is None:
        raise RequestError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return found


class AclFields(TypedDict):
    """The fields of an entry without its resource."""

    principal: str
    host: str
    operation: int
    permission_type: int


def acl_fields(acl: Acl) -> AclFields:
    """Return the fields of an entry without its resource."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission),
    }


def new_acl(wanted: "bodies.CreateAclsRequestCreation") -> Acl:
    """Return an entry that is to be created.

    Raises:
        PeerError: it has an unknown number.
        ValueError: it has one that is only for filters: the request fails as a whole.
        RequestError: another field is invalid.
    """
    pattern = Pattern(
        _one(ResourceType, wanted["resource_type"]),
        wanted["resource_name"],
        _one(PatternType, wanted["resource_pattern_type"], _MATCH),
    )
    operation = _one(Operation, wanted["operation"])
    permission = _one(Permission, wanted["permission_type"])
    principal = wanted["principal"]
    if not pattern.name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Resource name should not be empty")
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        text = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if ":" not in principal:
        text = f"Could not parse principal from `{principal:.100}` (no colon is present)"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    return Acl(pattern, principal, wanted["host"], operation, permission)


def detail_of(change: str, acls: Iterable[Acl]) -> str:
    """Return what the audit says of changed entries: it keeps the first ones of many."""
    return "; ".join(f"{change} {acl}" for acl in islice(acls, _ENTRIES_IN_DETAIL))


def acl_filter(wanted: "bodies.DescribeAclsRequest | bodies.DeleteAclsRequestFilter") -> Filter:
    """Return a filter; PeerError if it has an unknown number."""
    pattern_type = wanted["pattern_type_filter"]
    is_match = pattern_type == _MATCH
    return Filter(
        _one_or_any(ResourceType, wanted["resource_type_filter"]),
        wanted["resource_name_filter"],
        None if is_match else _one_or_any(PatternType, pattern_type),
        wanted["principal_filter"],
        wanted["host_filter"],
        _one_or_any(Operation, wanted["operation"]),
        _one_or_any(Permission, wanted["permission_type"]),
        is_match=is_match,
    )


def _one(kind: type[_EnumT], number: int, *of_filters: int) -> _EnumT:
    if number == _ANY or number in of_filters:
        raise ValueError(f"{number} is for filters")
    found = _one_or_any(kind, number)
    assert found is not None
    return found


def _one_or_any(kind: type[_EnumT], number: int) -> _EnumT | None:
    if number == _ANY:
        return None
    try:
        return kind(number)
    except ValueError:
        raise PeerError(f"{number} is no {kind.__name__} of access control entries") from None
