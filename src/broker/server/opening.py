"""Opens the metadata of a broker, before its parts are made: its own, or that of its cluster."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker.core.cluster_view import Alone, ClusterView
from broker.core.metadata import Metadata, OwnMetadata
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.interfaces import Leadership, LeadsAll
from broker.core.topics.placing import Placing, Standalone
from broker.model.config import Config
from broker.model.errors import DataDirError
from broker.storage.log_dir import LogDir
from broker.storage.metadata import MOVED_TO, WORKERS
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore
from broker.storage.recovery.epochs import ElectedEpochs, Epochs, UncleanStarts

if TYPE_CHECKING:
    from broker.server.cluster.cluster import Cluster
    from broker.storage.recovery.shared_folders import SharedFolders


class Opened(NamedTuple):
    """The metadata, and what follows from where it is stored."""

    metadata: Metadata
    io_thread: IoThread
    epochs: Epochs
    leadership: Leadership
    placing: Placing
    view: ClusterView
    cluster: "Cluster | None"  # None: standalone
    close: Callable[[], Awaitable[None] | None]
    folders: "SharedFolders | None" = None  # None: no other broker has the data directory
    # Called when durable records of a log turn out to be lost, in any thread.
    when_lost: Callable[[], None] = lambda: None


async def open_metadata(config: Config, log_dir: LogDir, node_ids: Sequence[int] = ()) -> Opened:
    """Open the metadata that a configuration names.

    Args:
        config: of this broker.
        log_dir: its data directory.
        node_ids: all brokers that share the directory; none: it is that of this one.

    Raises:
        ConfigError: the store refuses this broker's user or certificate.
        DataDirError: the data directory belongs to another cluster, or is damaged.
        StorageError: the store fails.
        Unreachable: the store does not answer.
    """
    io_thread = IoThread()
    if node_ids:
        # Imported where they are needed: a start with one broker needs none of it.
        from broker.server.workers.opening import open_shared  # noqa: PLC0415

        shared = await open_shared(config, log_dir, node_ids)
        cluster = shared.cluster
        return Opened(
            shared.metadata,
            io_thread,
            ElectedEpochs(),
            cluster,
            cluster.placing,
            cluster.view,
            cluster,
            shared.close,
            shared.folders,
        )
    address = config.metadata_address
    if address is not None:
        # Imported here: a standalone broker needs neither HTTP nor TLS, nor other brokers.
        from broker.core.cluster import records  # noqa: PLC0415
        from broker.server.cluster.cluster import Cluster, Directory  # noqa: PLC0415
        from broker.server.cluster.opening import (  # noqa: PLC0415
            join_cluster,
            open_store,
        )
        from broker.storage.checkpoints import store_seen  # noqa: PLC0415
        from broker.storage.checkpoints.intact import Intact  # noqa: PLC0415
        from broker.storage.more_directories import known_directories  # noqa: PLC0415

        store, metadata = open_store(config, address)
        try:
            seen = await join_cluster(metadata, log_dir, config.text("polylog.metadata.store"))
            restore = records.parse_restore(await metadata.get(records.RESTORE))
            revision, others = metadata.image.revision, known_directories(log_dir)
            intact = Intact(log_dir.path, restore.imported, revision, others)
        except BaseException:
            await store.close()
            raise
        cluster = Cluster(config, store, metadata, directory=Directory(intact, io_thread))

        async def close() -> None:
            image = metadata.image
            last = seen._replace(revision=image.revision, changed=image.changed_revision)
            try:
                store_seen.write(log_dir.own, last)
            finally:
                await cluster.close()

        return Opened(
            metadata,
            io_thread,
            ElectedEpochs(),
            cluster,
            cluster.placing,
            cluster.view,
            cluster,
            close,
            when_lost=intact.lost,
        )
    own = SqliteMetaStore(log_dir.path / FILE_NAME)
    moved = own.get(MOVED_TO)
    if moved is not None:
        from broker.core.cluster.transfer import moved_to  # noqa: PLC0415

        own.close()
        raise DataDirError(
            f"the metadata of {log_dir.path} has moved: start with"
            f" --set polylog.metadata.store={moved_to(moved)}"
        )
    broker_id = config.integer("node.id")
    if own.get(WORKERS) is not None:
        from broker.server.workers.layout import unshare  # noqa: PLC0415

        unshare(log_dir.path, own, broker_id)
    return Opened(
        OwnMetadata(own, io_thread),
        io_thread,
        UncleanStarts(own, broker_id),
        LeadsAll(),
        Standalone(broker_id),
        Alone(broker_id, config.text_or_none("broker.rack")),
        None,
        own.close,
    )
