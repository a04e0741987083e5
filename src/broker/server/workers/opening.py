"""Opens the metadata of a worker: the SQLite file that all workers of a data directory share."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from broker.core.scheduling.io_thread import IoThread
from broker.model.config import Config
from broker.server.cluster.cluster import Cluster
from broker.server.cluster.metadata import ClusterMetadata
from broker.server.cluster.opening import found_cluster, load
from broker.storage.log_dir import LogDir
from broker.storage.metadata.sqlite import FILE_NAME
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore
from broker.storage.recovery.shared_folders import SharedFolders


class Shared(NamedTuple):
    """What a worker has of the shared metadata and data directory."""

    metadata: ClusterMetadata
    cluster: Cluster
    folders: SharedFolders
    close: Callable[[], Awaitable[None]]


async def open_shared(config: Config, log_dir: LogDir, node_ids: Sequence[int]) -> Shared:
    """Open the metadata; `node_ids` are all workers. DataDirError or StorageError if it fails."""
    # The lease is renewed in a thread that no slow write of a log delays.
    thread = IoThread()
    file = log_dir.path / FILE_NAME
    store = AsyncSqliteMetaStore(SharedSqliteMetaStore(file), thread)
    metadata = ClusterMetadata(store)
    await load(metadata, str(file))
    await found_cluster(metadata, log_dir, log_dir.cluster_id)
    cluster = Cluster(config, store, metadata, node_ids)

    async def close() -> None:
        await cluster.close()
        thread.stop()

    return Shared(metadata, cluster, SharedFolders(log_dir.path, cluster.epoch), close)
