"""The records of topics in the metadata store.

    topic/<name>       its id and its number of partitions
    topicid/<id>       its name
    conf/topic/<name>  its own configuration, if it has any (`config_records.py`)
    deleted/<id>       name and number of partitions of a deleted topic whose folders may remain

This broker is the leader and only replica of every partition, so no leaders are stored.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.core.configs import records as config_records
from broker.model.errors import StorageError
from broker.model.identifiers import id_from_text, id_to_text
from broker.storage import metadata
from broker.storage.metadata.blocking import BlockingMetaStore


def read_all(store: BlockingMetaStore) -> Iterator[tuple[str, bytes, int, dict[str, str]]]:
    """Yield name, id, number of partitions and own configuration of every topic."""
    own = config_records.read_all(store, metadata.TOPIC_CONFIGS)
    for entry in store.scan(metadata.TOPICS)[0]:
        name = entry.key.removeprefix(metadata.TOPICS).decode()
        topic_id, partitions = _parse_topic(entry)
        yield name, topic_id, partitions, own.get(name, {})


def creations(
    name: str, topic_id: bytes, partitions: int, own_config: Mapping[str, str]
) -> list[metadata.Operation]:
    """Return the operations that create a topic."""
    operations: list[metadata.Operation] = [
        metadata.Put(metadata.topic_key(name), _topic(topic_id, partitions)),
        metadata.Put(metadata.topic_id_key(topic_id), _json({"version": 1, "name": name})),
    ]
    if own_config:
        operations.append(config_records.operation(metadata.topic_config_key(name), own_config))
    return operations


def deletions(name: str, topic_id: bytes) -> list[metadata.Operation]:
    """Return the operations that delete a topic."""
    return [
        metadata.Delete(metadata.topic_key(name)),
        metadata.Delete(metadata.topic_id_key(topic_id)),
        metadata.Delete(metadata.topic_config_key(name)),
    ]


class DeletedTopic(NamedTuple):
    """A topic that was deleted; its folders may remain."""

    name: str
    topic_id: bytes
    partitions: int


def remembered(deleted: DeletedTopic) -> metadata.Operation:
    """Return the operation that records remaining folders, so that a start removes them."""
    value = {"version": 1, "name": deleted.name, "partitions": deleted.partitions}
    return metadata.Put(metadata.deleted_topic_key(deleted.topic_id), _json(value))


def forgotten(deleted: DeletedTopic) -> metadata.Operation:
    """Return the operation for when the folders have been removed."""
    return metadata.Delete(metadata.deleted_topic_key(deleted.topic_id))


def read_deleted(store: BlockingMetaStore) -> list[DeletedTopic]:
    """Return the deleted topics whose folders may remain."""
    return [_parse_deleted(entry) for entry in store.scan(metadata.DELETED_TOPICS)[0]]


def put_config(
    store: BlockingMetaStore,
    name: str,
    topic_id: bytes,
    own_config: Mapping[str, str],
) -> bool:
    """Replace a topic's own configuration; False when the topic does not exist any more."""
    operation = config_records.operation(metadata.topic_config_key(name), own_config)
    return _change(store, name, topic_id, operation)


def put_partitions(store: BlockingMetaStore, name: str, topic_id: bytes, partitions: int) -> bool:
    """Replace a topic's number of partitions; False when the topic does not exist any more."""
    operation = metadata.Put(metadata.topic_key(name), _topic(topic_id, partitions))
    return _change(store, name, topic_id, operation)


def _change(
    store: BlockingMetaStore, name: str, topic_id: bytes, operation: metadata.Operation
) -> bool:
    """Change the topic with that id, but not a later topic of the same name."""
    entry = store.get(metadata.topic_key(name))
    if entry is None or _parse_topic(entry)[0] != topic_id:
        return False
    guard = metadata.Unchanged(entry.key, entry.mod_revision)
    return store.transact([guard], [operation]) is not None


def _topic(topic_id: bytes, partitions: int) -> bytes:
    return _json({"version": 1, "id": id_to_text(topic_id), "partitions": partitions})


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode()


def _parse_topic(entry: metadata.KeyValue) -> tuple[bytes, int]:
    try:
        match json.loads(entry.value):
            case {"version": 1, "id": str(shown_id), "partitions": int(partitions)}:
                return id_from_text(shown_id), partitions
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged {entry.key!r}: {entry.value!r}")


def _parse_deleted(entry: metadata.KeyValue) -> DeletedTopic:
    topic_id = id_from_text(entry.key.removeprefix(metadata.DELETED_TOPICS).decode())
    try:
        match json.loads(entry.value):
            case {"version": 1, "name": str(name), "partitions": int(partitions)}:
                return DeletedTopic(name, topic_id, partitions)
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged {entry.key!r}: {entry.value!r}")
