"""Stores and deletes access control entries; they are in force on this broker at return."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from broker.core.cluster import security_entries
from broker.core.cluster.security_entries import Kind
from broker.core.metadata import Metadata, change
from broker.core.security.acls import Acl
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION
from broker.storage.metadata import Operation


async def create(known: Metadata, acls: Collection[Acl]) -> None:
    """Store entries that are not there yet, some at a time; RequestError when that fails."""
    entries = known.image.security
    present = entries.entries(Kind.ACL)
    new = {acl.key: acl for acl in acls}
    new = {key: acl for key, acl in new.items() if key not in present}
    entries.check_room(Kind.ACL, len(new))
    await _change(known, (security_entries.put(Kind.ACL, *each) for each in _rows(new.values())))


async def delete(known: Metadata, acls: Iterable[Acl]) -> None:
    """Delete entries, some at a time; RequestError when that fails."""
    keys = dict.fromkeys(acl.key for acl in acls)
    await _change(known, (security_entries.delete(Kind.ACL, key) for key in keys))


def _rows(acls: Iterable[Acl]) -> Iterator[tuple[str, bytes]]:
    return ((acl.key, acl.value) for acl in acls)


async def _change(known: Metadata, operations: Iterator[Operation]) -> None:
    while part := list(islice(operations, CLUSTER_CHANGES_PER_TRANSACTION)):
        await change(known, (), part)
