"""Stores and deletes access control entries; they are in force on this broker at return."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from broker.core.cluster import security_entries
from broker.core.cluster.security_entries import Kind
from broker.core.metadata import Metadata, change
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Acl
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION
from broker.model.security_limits import ACLS_PER_STEP
from broker.storage.metadata import Operation


async def create(known: Metadata, acls: Collection[Acl]) -> None:
    """Store entries that are not there yet, some at a time; RequestError when that fails."""
    entries = known.image.security
    present = entries.entries(Kind.ACL)
    new: dict[str, Acl] = {}
    async for acl in in_steps(acls, ACLS_PER_STEP):
        key = acl.key
        if key not in present:
            new[key] = acl
    entries.check_room(Kind.ACL, len(new))
    await _change(
        known, (security_entries.put(Kind.ACL, key, acl.value) for key, acl in new.items())
    )


async def delete(known: Metadata, acls: Iterable[Acl]) -> None:
    """Delete entries, some at a time; RequestError when that fails."""
    keys = {acl.key: None async for acl in in_steps(acls, ACLS_PER_STEP)}
    await _change(known, (security_entries.delete(Kind.ACL, key) for key in keys))


async def _change(known: Metadata, operations: Iterator[Operation]) -> None:
    while part := list(islice(operations, CLUSTER_CHANGES_PER_TRANSACTION)):
        await change(known, (), part)
