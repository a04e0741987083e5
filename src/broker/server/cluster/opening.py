"""Opens the metadata store of a cluster, and makes this broker's data directory one of it."""

import logging
import ssl
from pathlib import Path

from broker.core.cluster import records
from broker.model.config import Config
from broker.model.errors import ConfigError, DataDirError
from broker.model.metadata_address import EtcdAddress
from broker.server.cluster.metadata import ClusterMetadata
from broker.storage.log_dir import LogDir
from broker.storage.metadata import Absent, MetaStore, Put
from broker.storage.metadata.etcd.gateway import Credentials, Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from broker.storage.metadata.sqlite import FILE_NAME

_log = logging.getLogger(__name__)


def open_store(config: Config, address: EtcdAddress) -> tuple[MetaStore, ClusterMetadata]:
    """Make the store that a configuration names; nothing is connected yet. Raises ConfigError."""
    gateway = Gateway(address.endpoints, tls=_tls(config), credentials=_credentials(config))
    store = EtcdMetaStore(gateway, f"{address.prefix}/".encode())
    return store, ClusterMetadata(store)


async def join_cluster(metadata: ClusterMetadata, log_dir: LogDir) -> None:
    """Read the cluster's metadata, or found the cluster; check that the directory belongs to it.

    Raises:
        StorageError: the store cannot be read or written.
        DataDirError: the directory is one of another cluster or of a standalone broker.
    """
    if (log_dir.path / FILE_NAME).exists():
        raise DataDirError(
            f"{log_dir.path} has the metadata of a standalone broker ({FILE_NAME}): start it with"
            " polylog.metadata.store=sqlite, or start with another --data-dir"
        )
    await metadata.load()
    if metadata.image.cluster_id is None:
        value = records.cluster_value(log_dir.cluster_id)
        await metadata.found(Absent(records.CLUSTER), Put(records.CLUSTER, value))
        _log.info("cluster founded: cluster_id=%s", metadata.image.cluster_id)
    cluster_id = metadata.image.cluster_id
    assert cluster_id is not None
    log_dir.join_cluster(cluster_id)


def _credentials(config: Config) -> Credentials | None:
    user = config.text_or_none("polylog.metadata.user")
    if user is None:
        return None
    file = config.text_or_none("polylog.metadata.password.file")
    if file is None:
        raise ConfigError("polylog.metadata.user needs polylog.metadata.password.file")
    try:
        return Credentials(user, Path(file).read_text().rstrip("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"polylog.metadata.password.file={file!r}: {error}") from None


def _tls(config: Config) -> ssl.SSLContext | None:
    authority = config.text_or_none("polylog.metadata.tls.ca.file")
    certificate = config.text_or_none("polylog.metadata.tls.certificate.file")
    if authority is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificates for etcd cannot be used: {error}") from None
    return context
