"""The access control entries of a broker that is stopped."""

from collections.abc import Sequence

from broker.core.cluster.security_entries import Kind
from broker.core.security import acl_changes
from broker.core.security.acls import Acl, parse
from broker.model.config import Config
from broker.server.cluster import offline
from broker.server.cluster.offline import Offline
from broker.server.offline_users import OfflineMetadata


def entries(config: Config) -> list[Acl]:
    """Return all entries."""

    async def read(found: Offline) -> list[Acl]:
        return _entries(found)

    return offline.run(config, read)


def create(config: Config, acls: Sequence[Acl]) -> list[Acl]:
    """Store entries; return all that there were before. The store may not exist yet.

    Raises:
        RequestError: there is no room.
    """

    async def write(found: Offline) -> list[Acl]:
        before = _entries(found)
        await acl_changes.create(OfflineMetadata(found), acls)
        return before

    return offline.run(config, write, is_new=True)


def delete(config: Config, acls: Sequence[Acl]) -> int:
    """Delete entries; return how many there were."""

    async def write(found: Offline) -> int:
        present = {each.key for each in _entries(found)}
        there = [each for each in acls if each.key in present]
        await acl_changes.delete(OfflineMetadata(found), there)
        return len(there)

    return offline.run(config, write)


def _entries(found: Offline) -> list[Acl]:
    stored = found.image.security.entries(Kind.ACL)
    return [parse(name, value) for name, value in stored.items()]
