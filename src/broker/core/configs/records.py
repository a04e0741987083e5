"""Configurations of resources in the metadata store: JSON by key, no entry without own values.

conf/topic/<name>   of a topic
conf/broker/<id>    of a broker, altered while it runs; conf/broker/ for all brokers
conf/group/<id>     of a group
"""

import json
from collections.abc import Mapping

from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import StorageError, disk_refusal
from broker.storage import metadata
from broker.storage.metadata.blocking import BlockingMetaStore


def operation(key: bytes, own: Mapping[str, str]) -> metadata.Operation:
    """Return the operation that stores this configuration under a key."""
    if not own:
        return metadata.Delete(key)
    return metadata.Put(key, json.dumps({"version": 1, "config": dict(own)}).encode())


async def put(
    store: BlockingMetaStore, io_thread: IoThread, key: bytes, own: Mapping[str, str]
) -> None:
    """Store this configuration under a key, durably; raises RequestError when the store fails."""
    change = operation(key, own)
    try:
        await io_thread.run(lambda: store.transact([], [change]))
    except StorageError as error:
        raise disk_refusal(error) from error


def read_all(store: BlockingMetaStore, prefix: bytes) -> dict[str, dict[str, str]]:
    """Return every configuration under a prefix, by the rest of its key."""
    return {
        entry.key.removeprefix(prefix).decode(): _parse(entry) for entry in store.scan(prefix)[0]
    }


def _parse(entry: metadata.KeyValue) -> dict[str, str]:
    try:
        match json.loads(entry.value):
            case {"version": 1, "config": dict(own)}:
                return {str(name): str(text) for name, text in own.items()}
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged {entry.key!r}: {entry.value!r}")
