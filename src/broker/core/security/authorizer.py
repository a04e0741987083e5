"""Decides who may do what, by the access control entries of the metadata store.

    super user                        allowed, whatever the entries say
    an entry denies it                denied
    an entry allows it                allowed
    no entry is for the resource      as allow.everyone.if.no.acl.found
    otherwise                         denied

Entries follow the store: a change is in force on a broker when its image has it. An entry that
cannot be read may be one that denies, so that only super users are allowed anything until it is
replaced or deleted. Many changes that were missed come in steps, in an order in which nothing is
allowed between two of them that neither the entries before nor those after all of them allow:

    what denies is added; what allows is added; what allows is removed; what denies is removed

Decisions are kept until an entry changes. The native paths keep theirs in `Permissions`, one for
each principal and address, which lose what they know with the next epoch.
"""

import logging
import socket
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias
from weakref import WeakValueDictionary

from broker._native.log.permissions import PermissionEpoch, Permissions
from broker._native.log.topic_table import TopicTable
from broker.core.cluster.security_entries import Kind, SecurityEntries
from broker.core.security import acls
from broker.core.security.acls import Acl, AclIndex, Filter, Operation, ResourceType
from broker.model.errors import StorageError
from broker.model.principal import Principal
from broker.model.security_limits import DECISION_NAME_CHARACTERS_KEPT, DECISIONS_KEPT_MAX

_log = logging.getLogger(__name__)

Asked: TypeAlias = tuple[str, str, Operation, ResourceType, str | None]  # None: any resource


class Authorizer:
    """The entries in force, and decisions by them."""

    def __init__(
        self,
        entries: SecurityEntries,
        topics: TopicTable,
        *,
        super_users: Collection[str],
        allows_unlisted: bool,
        decides_all: bool = False,
    ) -> None:
        """Follow the entries from now on; StorageError if one is damaged.

        Args:
            entries: of the image.
            topics: those that the native paths serve.
            super_users: principals as text.
            allows_unlisted: whether everyone may do everything on resources without entries.
            decides_all: whether the native paths leave every decision to Python, which records it.
        """
        self._topics = topics
        self._super_users = frozenset(super_users)
        self._allows_unlisted = allows_unlisted
        self._decides_all = decides_all
        self._index = AclIndex(plain_host)
        self._acls: dict[str, Acl] = {}  # by key
        self._damaged: set[str] = set()  # keys
        self._decided: dict[Asked, bool] = {}
        self._epoch = PermissionEpoch()
        self._permissions: WeakValueDictionary[tuple[str, str], Permissions] = WeakValueDictionary()
        self._callbacks: list[Callable[[], None]] = []
        for name, value in entries.entries(Kind.ACL).items():
            self._add(name, acls.parse(name, value))
        entries.watch(Kind.ACL, self._changed, _rank)

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._acls)

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Register a callback that is called after each change of an entry."""
        self._callbacks.append(callback)

    def is_super(self, principal: Principal) -> bool:
        """Return whether a principal may do everything."""
        return str(principal) in self._super_users

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: ResourceType,
        name: str,
    ) -> bool:
        """Return whether a principal may do something from an address."""
        asked = (str(principal), self._scope(host), operation, resource, name)
        decided = self._decided.get(asked)
        return self._decide(asked, self._decide_one) if decided is None else decided

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource: ResourceType
    ) -> bool:
        """Return whether it may do something to some resource of a type, whatever its name."""
        asked = (str(principal), self._scope(host), operation, resource, None)
        decided = self._decided.get(asked)
        return self._decide(asked, self._decide_any) if decided is None else decided

    def permissions(self, principal: Principal, host: str) -> Permissions:
        """Return what the native paths know of a principal and address."""
        key = str(principal), host
        found = self._permissions.get(key)
        if found is None:
            is_unlimited = self.is_super(principal) and not self._decides_all
            found = Permissions(self._epoch, self._topics, is_unlimited=is_unlimited)
            self._permissions[key] = found
        return found

    def view(self, principal: Principal, host: str) -> object:
        """Return a key that is equal for all to whom the same is shown, until entries change."""
        if self.is_super(principal):
            return self._epoch
        return str(principal), self._scope(host), self._epoch.number

    def find(self, wanted: Filter) -> Iterator[Acl | None]:
        """Yield the entries that a filter matches, and None for others: to be taken in steps."""
        for acl in list(self._acls.values()):
            yield acl if wanted.matches(acl) else None

    def literal(self, resource: ResourceType, name: str) -> list[Acl]:
        """Return the entries for exactly the resource of this name."""
        return self._index.literal(resource, name)

    # ---- decisions
    # ---------------------------------------------------------------------------------------------

    def _scope(self, host: str) -> str:
        """Return the address that decisions are kept for: any, if no entry is for one."""
        return plain_host(host) if self._index.hosts else acls.ANYWHERE

    def _decide(self, asked: Asked, decide: Callable[[Asked], bool]) -> bool:
        if asked[0] in self._super_users:
            return True
        if self._damaged:
            return False
        decided = decide(asked)
        name = asked[-1]
        # Clients choose the names that they ask for, whether these exist or not.
        if name is None or len(name) <= DECISION_NAME_CHARACTERS_KEPT:
            if len(self._decided) >= DECISIONS_KEPT_MAX:
                self._decided.clear()
            self._decided[asked] = decided
        return decided

    def _decide_one(self, asked: Asked) -> bool:
        principal, host, operation, resource, name = asked
        assert name is not None
        decided = self._index.decide(principal, host, operation, resource, name)
        return self._allows_unlisted if decided is None else decided

    def _decide_any(self, asked: Asked) -> bool:
        """Decide as Kafka: a resource that no entry is for counts if unlisted ones are allowed."""
        principal, host, operation, resource, _ = asked
        if self._decide_one((principal, host, operation, resource, "hardcode")):
            return True
        return self._index.decide_any(principal, host, operation, resource)

    # ---- entries
    # ---------------------------------------------------------------------------------------------

    def _changed(self, _kind: Kind, name: str, value: bytes | None) -> None:
        self._damaged.discard(name)
        if name in self._acls:
            self._index.remove(self._acls.pop(name))
        if value is not None:
            try:
                self._add(name, acls.parse(name, value))
            except StorageError as error:
                self._damaged.add(name)
                _log.error("only super users are allowed anything: error=%s", error)
        self._decided.clear()
        self._epoch.advance()
        for callback in self._callbacks:
            callback()

    def _add(self, name: str, acl: Acl) -> None:
        self._acls[name] = acl
        self._index.add(acl)


def _rank(before: bytes | None, after: bytes | None) -> int:
    """Return the place of a change among many. Only a damaged entry is replaced by another one."""
    if before is not None and _may_deny(before):
        return 3
    if after is None:
        return 2
    return 0 if _may_deny(after) else 1


def _may_deny(value: bytes) -> bool:
    """Return whether an entry denies something, or is damaged."""
    try:
        return acls.parse("", value).permission is acls.Permission.DENY
    except StorageError:
        return True


def plain_host(host: str) -> str:
    """Return one text for all forms of an IPv6 address: Java writes others than Linux does."""
    if ":" not in host:
        return host
    try:
        return socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, host))
    except OSError:
        return host
