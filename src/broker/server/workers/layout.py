"""The data directory as one broker has it, and as several brokers share it.

The key `workers` of the metadata store has the ids of the brokers that share the directory. Without
it the directory is that of one broker, whose leader epochs are its unclean starts:

    key                one broker                    workers
    topic/<name>       replicas are not read         each partition is placed on a worker
    deleted/<id>       it removes the folders        one or more workers remove the folders
    part/<id>/<n>      none                          the leaders, with epochs from elections
    node/<id>          unclean starts                not read

Leader epochs rise through both: the first election of workers is above all unclean starts, and a
later start of one broker counts from the highest election on.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from broker._native.kernel import file_ops
from broker.core.cluster import records
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState, TopicRecord
from broker.model.clock import SystemClock
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION
from broker.segments import text_files
from broker.storage import metadata
from broker.storage.checkpoints import checkpoint, clock_checkpoint
from broker.storage.log_dir import WORKERS as FOLDER
from broker.storage.log_dir import worker_folder
from broker.storage.metadata import WORKERS, Delete, KeyValue, Operation, Put
from broker.storage.metadata.blocking import BlockingMetaStore
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore
from broker.storage.recovery.epochs import set_unclean_starts, unclean_starts
from broker.storage.recovery.shared_folders import LOCKS
from broker.storage.reserve import Reserve

_log = logging.getLogger(__name__)


def share_directory(path: Path, node_ids: Sequence[int]) -> int:
    """Prepare a directory for workers, and return 0. Raises DataDirError or StorageError."""
    store = SqliteMetaStore(path / FILE_NAME)
    try:
        share(path, store, node_ids, SystemClock().wall_ms())
    finally:
        store.close()
    return 0


def share(path: Path, store: BlockingMetaStore, node_ids: Sequence[int], now_ms: int) -> None:
    """Prepare a directory that nobody has open for workers; the first id is its own broker's.

    `now_ms` is the wall time. May be repeated after a crash. Raises StorageError.
    """
    checkpoint.take_clean_shutdown(path)  # from now on one broker would have to recover the logs
    with suppress(FileNotFoundError):
        # Its entries are not above the recovery points, and would not follow the workers' changes.
        file_ops.remove(str(path / text_files.CLEANER_OFFSETS))
    Reserve(path).remove()
    _copy_clock(path, node_ids)
    entry = store.get(WORKERS)
    known = None if entry is None else _ids(entry)
    if known == list(node_ids):
        return
    floor = None if known is not None else unclean_starts(store, node_ids[0]) + 1
    for operations in _in_transactions(_placements(store, node_ids, floor)):
        store.transact([], operations)
    for operations in _in_transactions(_deletions(store, node_ids[0], now_ms)):
        store.transact([], operations)
    value = json.dumps({"version": records.VERSION, "ids": list(node_ids)}).encode()
    store.transact([], [Put(WORKERS, value)])
    _log.info("topics placed on workers: ids=%s before=%s", list(node_ids), known)


def unshare(path: Path, store: BlockingMetaStore, node_id: int) -> None:
    """Give a directory of workers, none of which runs, to one broker again.

    May be repeated after a crash. Raises StorageError.
    """
    entries, _ = store.scan(records.PARTITIONS)
    epochs = [records.parse_partition(each).leader_epoch for each in entries]
    starts = max([unclean_starts(store, node_id), *epochs])
    set_unclean_starts(store, node_id, starts)
    for operations in _in_transactions(Delete(each.key) for each in entries):
        store.transact([], operations)
    _remove_tree(path / FOLDER)
    with suppress(FileNotFoundError):
        file_ops.remove(str(path / LOCKS))
    store.transact([], [Delete(WORKERS)])
    _log.info("the data directory is one broker's again: unclean_starts=%d", starts)


def _placements(
    store: BlockingMetaStore, node_ids: Sequence[int], floor: int | None
) -> Iterator[Operation]:
    """Place each topic on the workers, by turns; with a floor, elections begin above it."""
    for entry in store.scan(metadata.TOPICS)[0]:
        topic = records.parse_topic(entry)
        first = topic.topic_id[-1]
        replicas = tuple(
            (node_ids[(first + partition) % len(node_ids)],)
            for partition in range(topic.partitions)
        )
        # Epoch 0 is of no registered broker: these partitions wait for the controller.
        epochs = dict.fromkeys(node_ids, NO_EPOCH)
        placed = TopicRecord(topic.topic_id, topic.partitions, replicas, epochs)
        yield Put(entry.key, records.topic_value(placed))
        if floor is None:
            continue
        for partition, each in enumerate(replicas):
            state = PartitionState(NO_LEADER, floor, NO_EPOCH, each, each, 0)
            key = records.partition_key(topic.topic_id, partition)
            yield Put(key, records.partition_value(state))


def _deletions(store: BlockingMetaStore, node_id: int, now_ms: int) -> Iterator[Operation]:
    """Let a worker remove the folders of deleted topics: those that were to do so may be gone."""
    for entry in store.scan(metadata.DELETED_TOPICS)[0]:
        deleted = records.parse_deleted(entry)._replace(pending=(node_id,), deleted_ms=now_ms)
        yield Put(entry.key, records.deleted_value(deleted))


def _in_transactions(operations: Iterator[Operation]) -> Iterator[list[Operation]]:
    while some := list(islice(operations, CLUSTER_CHANGES_PER_TRANSACTION)):
        yield some


def _ids(entry: KeyValue) -> list[int]:
    try:
        return [int(each) for each in json.loads(entry.value)["ids"]]
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"the metadata store holds a damaged {entry.key!r}") from None


def _copy_clock(path: Path, node_ids: Sequence[int]) -> None:
    """Let new workers begin with what is known about the clock of the machine."""
    seen = clock_checkpoint.read(path)
    for node_id in node_ids:
        folder = worker_folder(path, node_id)
        for each in (folder.parent, folder):
            if not each.is_dir():
                file_ops.make_folder(str(each))
        if seen is not None and not (folder / clock_checkpoint.FILE_NAME).exists():
            clock_checkpoint.write(folder, seen)


def _remove_tree(folder: Path) -> None:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.is_dir():
            _remove_tree(each)
        else:
            file_ops.remove(str(each))
    file_ops.remove(str(folder))
