"""The data directory: opened by one broker at a time, with a permanent identity.

`broker.lock` is held by flock(2) as long as the broker runs, so the kernel frees it however the
process ends; its text is only for the message that a second start prints. `meta.properties` is
Kafka's: cluster id, node id, directory id. Only the owner has access (folder mode 0700; the process
runs with umask 077).
"""

import fcntl
import logging
import os
import socket
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker.model.address import Address
from broker.model.errors import DataDirError, StorageError
from broker.model.identifiers import id_to_text, random_id
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.directories import PROBE, Directories

LOCK = "broker.lock"
KAFKA_LOCK = ".lock"  # made by Apache Kafka in each of its log directories, and never removed
WORKERS = "workers"  # its name is not that of a partition's folder
_META_VERSION = "1"
_log = logging.getLogger(__name__)


class DiskSpace(NamedTuple):
    """A file system's bytes: in total, and those that this user may still use."""

    total_bytes: int
    usable_bytes: int


class UnusableDirError(DataDirError):
    """A data directory that the system does not let this broker use."""


class LogDir:
    """An open data directory.

    Attributes:
        path: the folder of partitions.
        own: the folder of this broker's small files; another one if several brokers share `path`.
        node_id: of the broker.
        cluster_id: of the directory's cluster.
        directory_id: of the directory.
        directories: where folders of partitions are: `path`, and others of log.dirs.
    """

    def __init__(self, path: Path, node_id: int) -> None:
        """Open or create the directory for the broker of that id; DataDirError if that fails."""
        self.path = self.own = path
        self.node_id = node_id
        self.directories = Directories(path)
        self._others: list[LogDir] = []
        try:
            _make_folder(path)
        except OSError as error:
            raise _unusable(path, error) from None
        if (path / KAFKA_LOCK).exists() and not (path / LOCK).exists():
            raise DataDirError(
                f"{path} is a log directory of Apache Kafka, whose topics this broker does not"
                " know: start with another --data-dir, and copy them with MirrorMaker 2"
            )
        self._lock = _lock(path)
        try:
            self.cluster_id, self.directory_id = _identity(path, node_id)
            self.write_holder(())
        except BaseException:
            self._lock.close()
            raise

    def of_worker(self, node_id: int) -> "LogDir":
        """Return this directory for one of the brokers that share it, in a forked process.

        The lock is free only when all processes that have forked are gone. Raises DataDirError.
        """
        worker = object.__new__(LogDir)
        worker.__dict__.update(self.__dict__)
        worker.own = worker_folder(self.path, node_id)
        worker.node_id = node_id
        _make_folder(worker.own)
        return worker

    def use(self, others: "Mapping[Path, LogDir]", missing: Mapping[Path, str]) -> None:
        """Use more directories for folders of partitions; DataDirError if two have the same one.

        `missing` has the directories that cannot be used, with the reason.
        """
        self.directories = Directories(self.path, tuple(others), missing)
        self._others = list(others.values())

    def write_holder(self, listeners: Iterable[Address]) -> None:
        """Write into the lock file who holds it, for the error message of a second start."""
        addresses = ", ".join(map(str, listeners)) or "no address yet"
        self._lock.truncate(0)
        self._lock.write(f"pid {os.getpid()} on {socket.gethostname()}, {addresses}\n")
        self._lock.flush()

    def check_new(self, store: str) -> None:
        """Refuse a directory with partitions for a new cluster: without metadata they are strays.

        `store` names where the metadata of the new cluster would be.
        """
        for other in self._others:
            other.check_new(store)
        if text_files.has_partitions(self.path):
            raise DataDirError(
                f"{self.path} has partitions of cluster {self.cluster_id}, and there is no cluster"
                f" in polylog.metadata.store={store}: name the store of the directory's cluster,"
                " restore it, or start with another --data-dir"
            )

    def join_cluster(self, cluster_id: str) -> None:
        """Become a directory of a cluster's broker; DataDirError if it is one of another cluster.

        A directory without partitions takes the cluster's id, so a new one does. The broker's other
        directories join, too.
        """
        for other in self._others:
            other.join_cluster(cluster_id)
        file = self.path / text_files.META_PROPERTIES
        if cluster_id == self.cluster_id:
            return
        if text_files.has_partitions(self.path):
            raise DataDirError(
                f"{self.path} belongs to cluster {self.cluster_id}, and polylog.metadata.store is"
                f" of cluster {cluster_id}: name the store of the directory's cluster, or start"
                " with another --data-dir"
            )
        checkpoint.write_properties(file, _properties(cluster_id, self.node_id, self.directory_id))
        self.cluster_id = cluster_id

    def probe(self) -> None:
        """Write and sync a small file; StorageError when the disk takes no more writes."""
        file_ops.write_file_atomic(str(self.own / PROBE), b"")

    def close(self) -> None:
        """Free the directory for the next broker."""
        for other in self._others:
            other.close()
        self._lock.close()


def worker_folder(path: Path, node_id: int) -> Path:
    """Return the folder of the small files of one of the brokers that share a data directory."""
    return path / WORKERS / str(node_id)


def disk_space(path: Path) -> DiskSpace:
    """Return the space of a directory's file system; StorageError when that fails."""
    try:
        total_bytes, usable_bytes, _, _ = file_ops.space(str(path))
    except FileNotFoundError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    return DiskSpace(total_bytes, usable_bytes)


def _make_folder(path: Path) -> None:
    """Create the folder and its parents, each durable before the next."""
    if path.is_dir():
        return
    if path.exists():
        raise UnusableDirError(f"{path} is a file, not a data directory")
    _make_folder(path.parent)
    try:
        file_ops.make_folder(path)
        file_ops.sync_folder(path.parent)
    except StorageError as error:
        raise _unusable(path, error) from None


def _lock(path: Path) -> TextIOWrapper:
    try:
        # Not through file_ops: the lock is between processes, and no part of a simulated disk.
        # "a+" neither truncates what another broker wrote nor fails when the file is new.
        lock = (path / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        lock.close()
        raise DataDirError(
            f"{path} is in use by a broker ({holder}): stop that one,"
            " or start with another --data-dir"
        ) from None
    except OSError as error:
        lock.close()
        raise _unusable(path, error) from None
    return lock


def _identity(path: Path, node_id: int) -> tuple[str, str]:
    file = path / text_files.META_PROPERTIES
    properties = text_files.read_properties(file)
    if properties is None:
        cluster_id, directory_id = id_to_text(random_id()), id_to_text(random_id())
        properties = _properties(cluster_id, node_id, directory_id)
        checkpoint.write_properties(file, properties)
        _log.info("new data directory: path=%s node_id=%d", path, node_id)
    if properties.get("version") != _META_VERSION:
        raise DataDirError(
            f"{file} has version {properties.get('version')}, this broker knows {_META_VERSION}"
        )
    if properties.get("node.id") != str(node_id):
        raise DataDirError(
            f"{path} belongs to node {properties.get('node.id')}, this broker is node {node_id}:"
            " set node.id, or start with another --data-dir"
        )
    try:
        return properties["cluster.id"], properties["directory.id"]
    except KeyError as error:
        raise DataDirError(f"{file} has no {error.args[0]}: restore it from a backup") from None


def _properties(cluster_id: str, node_id: int, directory_id: str) -> dict[str, str]:
    return {
        "version": _META_VERSION,
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": directory_id,
    }


def _unusable(path: Path, error: OSError | StorageError) -> UnusableDirError:
    return UnusableDirError(
        f"{path} cannot be used as data directory ({error}): make it writable for this user, or"
        " start with another --data-dir"
    )
