"""The users of a broker that is stopped: a first administrator can exist before it starts."""

from collections.abc import Sequence

from broker.core.cluster.image import ClusterImage
from broker.core.security.users import Credential, Users
from broker.model.config import Config
from broker.server.cluster import offline
from broker.server.cluster.offline import Offline
from broker.storage.metadata import Guard, KeyValue, Operation


class OfflineMetadata:
    """The metadata of a store that no broker uses; the image stays as it was read."""

    def __init__(self, found: Offline) -> None:
        """Keep the store."""
        self._found = found

    @property
    def image(self) -> ClusterImage:
        """What the store had."""
        return self._found.image

    async def get(self, key: bytes) -> KeyValue | None:
        """Return a key of the store."""
        return await self._found.store.get(key)

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Change the store."""
        return await self._found.store.transact(guards, operations)


def credentials(config: Config, *, is_new: bool = False) -> dict[str, list[Credential]]:
    """Return the credentials of all users; with `is_new` the store may not exist yet."""

    async def read(found: Offline) -> dict[str, list[Credential]]:
        return Users(OfflineMetadata(found)).credentials()

    return offline.run(config, read, is_new=is_new)


def alter(config: Config, changes: Sequence[Credential]) -> None:
    """Store and delete credentials; RequestError when there is no room."""

    async def write(found: Offline) -> None:
        await Users(OfflineMetadata(found)).alter(changes)

    offline.run(config, write, is_new=True)
