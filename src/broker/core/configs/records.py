"""Configurations of resources in the metadata store: JSON by key, no entry without own values.

conf/topic/<name>   of a topic
conf/broker/<id>    of a broker, altered while it runs; conf/broker/ for all brokers
conf/group/<id>     of a group
"""

import json
from collections.abc import Mapping

from broker.core.cluster.image import ClusterImage
from broker.core.metadata import Metadata, change
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.storage import metadata


def operation(key: bytes, own: Mapping[str, str]) -> metadata.Operation:
    """Return the operation that stores this configuration under a key."""
    if not own:
        return metadata.Delete(key)
    return metadata.Put(key, json.dumps({"version": 1, "config": dict(own)}).encode())


def guard(image: ClusterImage, key: bytes) -> metadata.Guard:
    """Return the guard that a configuration is as the image has it."""
    entry = image.configs.get(key)
    return metadata.Absent(key) if entry is None else metadata.Unchanged(key, entry.mod_revision)


async def put(known: Metadata, key: bytes, own: Mapping[str, str]) -> None:
    """Store this configuration under a key, durably.

    Raises RequestError when the store fails, or when another broker has changed it meanwhile.
    """
    if not own and key not in known.image.configs:
        return
    if await change(known, [guard(known.image, key)], [operation(key, own)]) is None:
        text = "the configuration was changed by another broker meanwhile: try again"
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT, text)


def read(image: ClusterImage, key: bytes) -> dict[str, str]:
    """Return the configuration under a key, empty if there is none; StorageError if damaged."""
    entry = image.configs.get(key)
    return {} if entry is None else _parse(entry)


def read_all(image: ClusterImage, prefix: bytes) -> dict[str, dict[str, str]]:
    """Return every configuration under a prefix, by the rest of its key."""
    return {
        key.removeprefix(prefix).decode(): _parse(entry)
        for key, entry in sorted(image.configs.items())
        if key.startswith(prefix)
    }


def _parse(entry: metadata.KeyValue) -> dict[str, str]:
    try:
        match json.loads(entry.value):
            case {"version": 1, "config": dict(own)}:
                return {str(name): str(text) for name, text in own.items()}
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged {entry.key!r}: {entry.value!r}")
