"""Opens the metadata store of a cluster, and makes this broker's data directory one of it."""

import asyncio
import logging
import ssl
from pathlib import Path

from broker.core.cluster import records, transfer
from broker.model.clock import monotonic
from broker.model.config import Config
from broker.model.errors import ConfigError, DataDirError, StorageError, Unreachable
from broker.model.identifiers import id_to_text, random_id
from broker.model.limits import CLUSTER_RETRY_MS, METADATA_START_SECONDS
from broker.model.metadata_address import EtcdAddress
from broker.model.secret import Secret
from broker.model.secret_file import check_secret_file, read_password_file
from broker.server.cluster.metadata import ClusterMetadata
from broker.storage.checkpoints import store_seen
from broker.storage.checkpoints.store_seen import StoreSeen
from broker.storage.log_dir import LogDir
from broker.storage.metadata import (
    MOVED_TO,
    Absent,
    MetaStore,
    OutcomeUnknown,
    Put,
    Unavailable,
)
from broker.storage.metadata.etcd.gateway import Credentials, EtcdError, Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore

_log = logging.getLogger(__name__)
# Codes of gRPC: INVALID_ARGUMENT for a wrong password or no user, PERMISSION_DENIED,
# FAILED_PRECONDITION for a user where etcd has none, UNAUTHENTICATED.
_OF_THE_USER = frozenset({3, 7, 9, 16})


def open_store(config: Config, address: EtcdAddress) -> tuple[MetaStore, ClusterMetadata]:
    """Make the store that a configuration names; nothing is connected yet. Raises ConfigError."""
    gateway = Gateway(address.endpoints, tls=_tls(config), credentials=_credentials(config))
    store = EtcdMetaStore(gateway, f"{address.prefix}/".encode())
    return store, ClusterMetadata(store)


async def join_cluster(metadata: ClusterMetadata, log_dir: LogDir, store: str) -> StoreSeen:
    """Read the cluster's metadata, or found the cluster; check that the directory belongs to it.

    A store that does not answer is tried again for METADATA_START_SECONDS. `store` is its address,
    as the configuration has it. Returns the state of the store, which the directory has, too.

    Raises:
        ConfigError: the store refuses this broker's user or certificate.
        DataDirError: the directory is one of another cluster or of a standalone broker, or has
            seen a newer state of the store.
        StorageError: the store cannot be read or written, or has a damaged or newer value.
        Unreachable: the store does not answer.
    """
    give_up = monotonic() + METADATA_START_SECONDS
    while True:
        try:
            return await _join(metadata, log_dir, store)
        except EtcdError as error:
            if error.code in _OF_THE_USER:
                raise ConfigError(
                    f"etcd refuses this broker ({error}): check polylog.metadata.user,"
                    " polylog.metadata.password.file and that user's role, which has to read and"
                    f" write all keys of {store}"
                ) from None
            raise
        except (Unavailable, OutcomeUnknown) as error:
            if _is_of_the_certificates(error.__cause__):
                raise ConfigError(
                    f"the connection to etcd is not trusted ({error}): check"
                    " polylog.metadata.tls.ca.file and polylog.metadata.tls.certificate.file"
                ) from None
            if monotonic() >= give_up:
                raise Unreachable(
                    f"polylog.metadata.store={store} has not answered for"
                    f" {METADATA_START_SECONDS} s ({error}): start it, or correct its address or"
                    " the polylog.metadata.tls settings"
                ) from None
            _log.warning("waiting for the metadata store: store=%s error=%s", store, error)
        await asyncio.sleep(CLUSTER_RETRY_MS / 1000)


async def _join(metadata: ClusterMetadata, log_dir: LogDir, store: str) -> StoreSeen:
    if not _has_moved(log_dir.path / FILE_NAME):
        raise DataDirError(
            f"{log_dir.path} has the metadata of a standalone broker ({FILE_NAME}): start it with"
            " polylog.metadata.store=sqlite, move its metadata (broker metadata export), or start"
            " with another --data-dir"
        )
    await load(metadata, store)
    if metadata.image.cluster_id is None:
        if metadata.image.topics:
            raise StorageError(
                f"{store} has topics and no cluster: delete its keys, and complete the import"
            )
        log_dir.check_new(store)
    # A new id, not that of the directory: if the store has lost its cluster, the directories of
    # that cluster are refused, also when a broker without partitions is the first to start.
    await found_cluster(metadata, log_dir, id_to_text(random_id()))
    restore = records.parse_restore(await metadata.get(records.RESTORE))
    image = metadata.image
    found = StoreSeen(log_dir.cluster_id, image.revision, image.changed_revision, (restore.id,))
    return _see(log_dir, found, store)


def _see(log_dir: LogDir, found: StoreSeen, store: str) -> StoreSeen:
    """Let the directory remember the store's state; DataDirError if it has seen a newer one."""
    seen = store_seen.read(log_dir.own)
    if seen is not None and found.is_older_than(seen):
        raise DataDirError(
            f"the metadata of {store} is older than what {log_dir.path} has seen of it (revision"
            f" {found.revision} after restore {found.restores[-1]}, and before {seen.revision}"
            f" after restore {seen.restores[-1]}): stop all brokers, restore the newest backup of"
            " the store, run `broker metadata bump-epochs`, and start them"
        )
    found = found.with_restores_of(seen)
    store_seen.write(log_dir.own, found)
    return found


async def load(metadata: ClusterMetadata, store: str) -> None:
    """Read the metadata; `store` names where it is. StorageError; DataDirError: it has moved."""
    await metadata.load()
    moved_to = transfer.moved_to(await metadata.get(MOVED_TO))
    if moved_to is not None:
        raise DataDirError(
            f"the metadata of {store} has moved to {moved_to}: start with"
            " --set polylog.metadata.store of that store"
        )


async def found_cluster(metadata: ClusterMetadata, log_dir: LogDir, new_id: str) -> None:
    """Found the cluster, unless there is one, and make the directory one of it.

    `new_id` is that of a cluster that is founded. Raises StorageError or DataDirError as
    `join_cluster`.
    """
    if metadata.image.cluster_id is None:
        value = records.cluster_value(new_id)
        await metadata.found(Absent(records.CLUSTER), Put(records.CLUSTER, value))
        _log.info("cluster founded: cluster_id=%s", metadata.image.cluster_id)
    cluster_id = metadata.image.cluster_id
    assert cluster_id is not None
    log_dir.join_cluster(cluster_id)
    others = sorted(metadata.image.brokers)
    _log.info("cluster joined: cluster_id=%s registered_brokers=%s", cluster_id, others)


def _has_moved(file: Path) -> bool:
    """Return whether a directory has no metadata of a standalone broker any more."""
    if not file.exists():
        return True
    store = SqliteMetaStore(file)
    try:
        return store.get(MOVED_TO) is not None
    finally:
        store.close()


def _is_of_the_certificates(error: BaseException | None) -> bool:
    """Return whether a connection has failed because one side does not trust the other."""
    if not isinstance(error, ssl.SSLError):
        return False
    return any(each in str(error.reason) for each in ("CERTIFICATE", "UNKNOWN_CA"))


def _credentials(config: Config) -> Credentials | None:
    user = config.text_or_none("polylog.metadata.user")
    if user is None:
        return None
    file = config.text_or_none("polylog.metadata.password.file")
    if file is None:
        raise ConfigError("polylog.metadata.user needs polylog.metadata.password.file")
    return Credentials(
        user, Secret(read_password_file(Path(file), "polylog.metadata.password.file"))
    )


def _tls(config: Config) -> ssl.SSLContext | None:
    authority = config.text_or_none("polylog.metadata.tls.ca.file")
    certificate = config.text_or_none("polylog.metadata.tls.certificate.file")
    if authority is None and certificate is None:
        return None
    if certificate is not None:
        check_secret_file(Path(certificate), "polylog.metadata.tls.certificate.file")
    from broker.client.secured import checking_context  # noqa: PLC0415 - most stores have no TLS

    try:
        context = checking_context(authority)
        if certificate is not None:
            context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificates for etcd cannot be used: {error}") from None
    return context
