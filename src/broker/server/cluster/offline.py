"""Work on a metadata store while no broker uses it: export, import, and raising leader epochs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from broker._native.kernel import file_ops
from broker.core.cluster import records, transfer
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import Restore, Transaction
from broker.core.cluster.slices import complete
from broker.core.cluster.transfer import Header
from broker.core.producer_ids import reservation
from broker.core.scheduling.io_thread import IoThread
from broker.model.clock import SystemClock
from broker.model.config import Config
from broker.model.errors import ConfigError, DataDirError, StorageError
from broker.model.identifiers import id_to_text, random_id
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION, PRODUCER_IDS_SKIPPED
from broker.server.cluster.opening import open_store
from broker.storage.log_dir import LogDir
from broker.storage.metadata import (
    MOVED_TO,
    PRODUCER_ID_BLOCK,
    WORKERS,
    Absent,
    KeyValue,
    MetaStore,
    Put,
)
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore

_T = TypeVar("_T")
_OF_WORKERS = (
    "the metadata is of several workers, which share a directory: start it with --workers 1, stop"
    " it, and export again"
)


class Offline(NamedTuple):
    """A store that no broker uses."""

    store: MetaStore
    log_dir: LogDir | None  # of a standalone broker
    image: ClusterImage
    entries: Sequence[KeyValue]

    @property
    def header(self) -> Header:
        """Whose metadata it has."""
        if self.log_dir is not None:
            return Header(self.log_dir.cluster_id, self.log_dir.node_id)
        if self.image.cluster_id is None:
            raise ConfigError("the metadata store has no cluster: correct its address")
        return Header(self.image.cluster_id, None)


def run(config: Config, work: Callable[[Offline], Awaitable[_T]], *, is_new: bool = False) -> _T:
    """Do work on the store that a configuration names; with `is_new` it may not exist yet.

    Raises:
        ConfigError: brokers of the cluster run.
        DataDirError: a broker uses the data directory, or there is none.
        StorageError: the store fails.
    """
    return asyncio.run(_run(config, work, is_new=is_new))


async def _run(config: Config, work: Callable[[Offline], Awaitable[_T]], *, is_new: bool) -> _T:
    with ExitStack() as closing:
        address = config.metadata_address
        log_dir = None
        store: MetaStore
        if address is not None:
            store, _ = open_store(config, address)
        else:
            file = config.data_dir / FILE_NAME
            if not is_new and not file.exists():
                raise DataDirError(f"there is no {file}: name the broker's --data-dir")
            log_dir = LogDir(config.data_dir, config.integer("node.id"))
            closing.callback(log_dir.close)
            thread = IoThread()
            closing.callback(thread.stop)
            store = AsyncSqliteMetaStore(SqliteMetaStore(file), thread)
        try:
            entries, revision = await store.scan(b"")
            image = ClusterImage()
            complete(image.load(entries, revision))
            _check_unused(image)
            return await work(Offline(store, log_dir, image, entries))
        finally:
            await store.close()


def _check_unused(image: ClusterImage) -> None:
    registered = {**image.brokers, **image.fenced}
    if registered:
        ids = ", ".join(map(str, sorted(registered)))
        raise ConfigError(f"brokers of this cluster run ({ids}): stop them first")


async def export(offline: Offline, file: Path, moved_to: str | None) -> int:
    """Write all metadata to a new file, durably; then mark the store as moved, if it is.

    Returns the number of keys.
    """
    if moved_to is not None and _is_of_workers(offline.entries):
        raise ConfigError(_OF_WORKERS)
    lines = list(transfer.lines(offline.header, offline.entries))
    _write_new(file, "".join(f"{each}\n" for each in lines))
    if moved_to is not None:
        put = Put(MOVED_TO, transfer.moved_value(moved_to))
        await offline.store.transact([], [put])
    return len(lines) - 1


def _write_new(file: Path, text: str) -> None:
    if file.exists():
        raise ConfigError(f"{file} exists: name a new file")
    try:
        file_ops.write_file_atomic(str(file), text.encode())
    except (OSError, StorageError) as error:
        raise StorageError(f"{file} cannot be written: {error}") from error


async def import_(offline: Offline, lines: Iterable[str]) -> int:
    """Write exported metadata into an empty store; return the number of keys.

    The cluster's own key is last: without it no broker joins what is not complete.
    """
    header, entries = transfer.parse(lines)
    if offline.log_dir is None and _is_of_workers(entries):
        raise ConfigError(_OF_WORKERS)
    if offline.entries:
        raise ConfigError(
            f"the metadata store has {len(offline.entries)} keys: import into an empty one, or"
            " delete these keys, if they are of an import that was interrupted"
        )
    if offline.log_dir is None:
        puts = list(transfer.imported(header, entries, SystemClock().wall_ms()))
        restore_id = id_to_text(random_id())
        puts.append(_restored(Restore(restore_id, imported=restore_id)))
        puts.append(Put(records.CLUSTER, records.cluster_value(header.cluster_id)))
    elif header.standalone != offline.log_dir.node_id:
        raise ConfigError(
            f"the metadata is of {_owner(header)}, and this is a standalone broker with node.id"
            f" {offline.log_dir.node_id}: set polylog.metadata.store or node.id"
        )
    else:
        puts = [Put(each.key, each.value) for each in entries]
        offline.log_dir.join_cluster(header.cluster_id)
    for first in range(0, len(puts), CLUSTER_CHANGES_PER_TRANSACTION):
        some = puts[first : first + CLUSTER_CHANGES_PER_TRANSACTION]
        guards = [Absent(each.key) for each in some]
        if await offline.store.transact(guards, some) is None:
            raise StorageError("another program has changed the metadata store meanwhile")
    return len(puts)


def _is_of_workers(entries: Iterable[KeyValue]) -> bool:
    """Return whether metadata is that of a directory that several workers share."""
    return any(each.key == WORKERS for each in entries)


def _owner(header: Header) -> str:
    if header.standalone is None:
        return "a cluster"
    return f"a standalone broker with node.id {header.standalone}"


async def bump_epochs(offline: Offline, *, is_dry_run: bool = False) -> int:
    """Raise the leader epoch of every partition, and skip producer ids; return the partitions.

    In a dry run nothing is changed. Last of all, the data directories of a cluster accept the
    store's revision, whatever it is.
    """
    if offline.log_dir is not None and not _is_of_workers(offline.entries):
        raise ConfigError(
            "a standalone broker has no elections: name the store of a cluster with"
            " --set polylog.metadata.store=etcd://..."
        )
    count = 0
    block = await offline.store.get(PRODUCER_ID_BLOCK)
    _, guard, put = reservation(block, PRODUCER_IDS_SKIPPED)
    skipping = Transaction([guard], [put])
    for transaction in (skipping, *transfer.bumped(offline.image)):
        if not is_dry_run and await offline.store.transact(*transaction) is None:
            raise StorageError(
                "another program has changed the metadata store meanwhile: run again"
            )
        count += len(transaction.operations)
    if offline.log_dir is None and not is_dry_run:
        before = records.parse_restore(await offline.store.get(records.RESTORE))
        restored = _restored(before._replace(id=id_to_text(random_id())))
        await offline.store.transact([], [restored])
    return count - len(skipping.operations)


def _restored(restore: Restore) -> Put:
    """Declare that the store's revisions do not follow those that brokers have seen."""
    return Put(records.RESTORE, records.restore_value(restore))
