"""Metadata as lines of JSON, between stores and as a backup, while no broker runs.

    {"version": 1, "cluster_id": "…", "standalone": 3}    the first line; a cluster has no
                                                          "standalone", the node.id of its broker
    {"key": "topic/orders", "value": {…}}                 each key but those of running
                                                          brokers and of the store alone

Revisions of another store mean nothing, so broker epochs become NO_EPOCH: a controller elects all
leaders anew, with higher leader epochs. Leader epochs are kept. What a standalone broker has
becomes a cluster in which its node.id leads and holds everything.

ISR, ELR and reassignments are kept. An imported state names its members as of the import
(eligibility.py): whoever imports says by that that the directories are what they were. A directory
that has been intact in the other store registers with a revision before all others; the one that
it had there means nothing here. A directory that was emptied afterwards is one of a later revision.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from broker.core.cluster import eligibility, records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_EPOCH, NO_LEADER, PartitionState, Transaction
from broker.model.errors import ConfigError, StorageError
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION, LEADER_EPOCHS_BUMPED
from broker.storage import metadata
from broker.storage.metadata import KeyValue, Put

_VERSION = 1
_NODES = b"node/"


class Header(NamedTuple):
    """Whose metadata it is."""

    cluster_id: str
    standalone: int | None  # node.id of a standalone broker


# ---- to lines and back
# -------------------------------------------------------------------------------------------------


def lines(header: Header, entries: Iterable[KeyValue]) -> Iterator[str]:
    """Yield the lines of a store's entries, without those that leases hold.

    Raises:
        StorageError: an entry is not one of a broker.
    """
    first: dict[str, object] = {"version": _VERSION, "cluster_id": header.cluster_id}
    if header.standalone is not None:
        first["standalone"] = header.standalone
    yield json.dumps(first)
    for entry in entries:
        if not is_transient(entry.key):
            try:
                shown = {"key": entry.key.decode(), "value": json.loads(entry.value)}
            except ValueError:
                text = f"the metadata store holds a damaged {entry.key!r}: restore it, or delete it"
                raise StorageError(text) from None
            yield json.dumps(shown)


def is_transient(key: bytes) -> bool:
    """Return whether a key belongs to a running broker, or to its store alone."""
    return key.startswith((records.BROKERS, records.DIRECTORIES)) or key in {
        records.CONTROLLER,
        records.CLUSTER,  # it is in the header
        records.RESTORE,
        records.CHANGED,
        metadata.MOVED_TO,
    }


def parse(text: Iterable[str]) -> tuple[Header, list[KeyValue]]:
    """Parse lines; their entries have the revision 0. ConfigError names a line that is wrong."""
    numbered = ((number, _object(number, line)) for number, line in enumerate(text, 1))
    match next(numbered, (1, {})):
        case _, {"version": 1, "cluster_id": str(cluster_id), **more}:
            standalone = more.get("standalone")
            if standalone is None or type(standalone) is int:
                return Header(cluster_id, standalone), [_entry(*each) for each in numbered]
    raise ConfigError("line 1 is not that of exported metadata of version 1")


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"line {number} is not a JSON object")
    return value


def _entry(number: int, value: dict[str, Any]) -> KeyValue:
    match value:
        case {"key": str(key), "value": dict(fields)}:
            return KeyValue(key.encode(), json.dumps(fields).encode(), 0, 0)
    raise ConfigError(f"line {number} has no key and value")


# ---- into another store
# -------------------------------------------------------------------------------------------------


def imported(header: Header, entries: Iterable[KeyValue], now_ms: int) -> Iterator[Put]:
    """Yield the operations that make a cluster of these entries; StorageError if one is damaged.

    Args:
        header: whose they are.
        entries: of a standalone broker or of a cluster.
        now_ms: the wall time.
    """
    entries = list(entries)
    leader_epoch = _unclean_starts(header, entries)
    for entry in entries:
        if header.standalone is not None:
            yield from _of_standalone(entry, header.standalone, leader_epoch, now_ms)
        elif entry.key.startswith(metadata.TOPICS):
            topic = records.parse_topic(entry)
            epochs = dict.fromkeys(topic.broker_epochs, NO_EPOCH)
            for _, others in topic.enlarged:
                epochs.update(dict.fromkeys(others, NO_EPOCH))
            topic = topic._replace(broker_epochs=epochs, enlarged=())
            yield Put(entry.key, records.topic_value(topic))
        elif entry.key.startswith(records.PARTITIONS):
            state = _without_leader(records.parse_partition(entry))._replace(absent=())
            yield Put(entry.key, records.partition_value(state))
        else:
            yield Put(entry.key, entry.value)


def _of_standalone(
    entry: KeyValue, broker_id: int, leader_epoch: int, now_ms: int
) -> Iterator[Put]:
    if entry.key.startswith(metadata.TOPICS):
        topic = records.parse_topic(entry)
        replicas = ((broker_id,),) * topic.partitions
        topic = topic._replace(replicas=replicas, broker_epochs={broker_id: NO_EPOCH})
        yield Put(entry.key, records.topic_value(topic))
        if leader_epoch > 0:
            own = (broker_id,)
            state = PartitionState(NO_LEADER, leader_epoch, NO_EPOCH, own, own, 1)
            for number in range(topic.partitions):
                key = records.partition_key(topic.topic_id, number)
                yield Put(key, records.partition_value(state))
    elif entry.key.startswith(metadata.DELETED_TOPICS):
        deleted = records.parse_deleted(entry)._replace(pending=(broker_id,), deleted_ms=now_ms)
        yield Put(entry.key, records.deleted_value(deleted))
    else:
        yield Put(entry.key, entry.value)


def _unclean_starts(header: Header, entries: Iterable[KeyValue]) -> int:
    """Return the highest leader epoch of a standalone broker (storage/recovery/epochs.py)."""
    for entry in entries:
        if entry.key == b"%b%d" % (_NODES, header.standalone or 0):
            starts = json.loads(entry.value).get("unclean_starts", 0)
            return starts if type(starts) is int else 0
    return 0


def _without_leader(state: PartitionState) -> PartitionState:
    return state._replace(leader=NO_LEADER, broker_epoch=NO_EPOCH, successor=NO_LEADER)


# ---- leader epochs
# -------------------------------------------------------------------------------------------------


def bumped(image: ClusterImage) -> list[Transaction]:
    """Return transactions that raise the leader epoch of each partition by LEADER_EPOCHS_BUMPED.

    For a store that was restored from an old backup: logs may have higher epochs than it has. No
    broker runs, so all members are absent, as of the revision of the backup; members of an old ELR
    may lack what was acknowledged after the backup, and are none any more.
    """
    operations: list[tuple[metadata.Guard, Put]] = []
    for topic_id, topic in image.topics.items():
        for number in range(topic.record.partitions):
            found = eligibility.known(image, topic_id, number)
            if found is None or not found.state.replicas:
                continue
            epoch = found.state.leader_epoch + LEADER_EPOCHS_BUMPED
            raised = found.next(_without_leader(found.state)._replace(leader_epoch=epoch, elr=()))
            guard = image.guard(topic_id, number)
            operations.append((guard, Put(guard.key, records.partition_value(raised))))
    size = CLUSTER_CHANGES_PER_TRANSACTION
    parts = [operations[first : first + size] for first in range(0, len(operations), size)]
    return [Transaction([guard for guard, _ in part], [put for _, put in part]) for part in parts]


def moved_value(store: str) -> bytes:
    """Return the value of `moved_to`."""
    return json.dumps({"version": records.VERSION, "store": store}).encode()


def moved_to(entry: KeyValue | None) -> str | None:
    """Return the store to which all metadata has moved; None: it is here."""
    if entry is None:
        return None
    try:
        match json.loads(entry.value):
            case {"store": str(store)}:
                return store
    except ValueError:
        pass  # it says that the metadata has moved, and not to where
    return "another store"
