"""Configurations of resources in the metadata store: JSON by key, no entry without own values.

conf/topic/<name>   of a topic
conf/broker/<id>    of a broker, altered while it runs; conf/broker/ for all brokers
conf/group/<id>     of a group
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from broker.core.cluster.image import ClusterImage
from broker.core.metadata import Metadata, change
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import CHANGE_ATTEMPTS
from broker.storage import metadata
from broker.storage.metadata import Guard


def operation(key: bytes, own: Mapping[str, str]) -> metadata.Operation:
    """Return the operation that stores this configuration under a key."""
    if not own:
        return metadata.Delete(key)
    return metadata.Put(key, json.dumps({"version": 1, "config": dict(own)}).encode())


def guard(image: ClusterImage, key: bytes) -> Guard:
    """Return the guard that a configuration is as the image has it."""
    entry = image.configs.get(key)
    return metadata.Absent(key) if entry is None else metadata.Unchanged(key, entry.mod_revision)


class ChangedMeanwhile(RequestError):  # noqa: N818 (nothing has failed)
    """Another broker has changed what a request changes; it is tried again, or the client does."""

    def __init__(self) -> None:
        """Give the error that clients get when it was tried often enough."""
        text = "another broker has changed it meanwhile: try again"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, text)


async def attempt(alter: Callable[[], Awaitable[None]]) -> None:
    """Make an alteration, anew when another broker was first; ChangedMeanwhile if it always is."""
    for _ in range(CHANGE_ATTEMPTS - 1):
        with suppress(ChangedMeanwhile):
            return await alter()
    return await alter()


async def put(known: Metadata, key: bytes, own: Mapping[str, str], unchanged: Guard) -> None:
    """Store this configuration under a key, durably, if it is still what it was made from.

    Args:
        known: where the store is changed.
        key: of the configuration.
        own: the new configuration.
        unchanged: the `guard` of the image from which the new configuration was made.

    Raises:
        ChangedMeanwhile: it is not.
        RequestError: the store fails.
    """
    if not own and isinstance(unchanged, metadata.Absent):
        return
    if await change(known, [unchanged], [operation(key, own)]) is None:
        raise ChangedMeanwhile


def read(image: ClusterImage, key: bytes) -> dict[str, str]:
    """Return the configuration under a key, empty if there is none; StorageError if damaged."""
    entry = image.configs.get(key)
    return {} if entry is None else _parse(entry)


def read_all(image: ClusterImage, prefix: bytes) -> dict[str, dict[str, str]]:
    """Return every configuration under a prefix, by the rest of its key.

    Raises StorageError for a damaged one.
    """
    entries = [entry for key, entry in image.configs.items() if key.startswith(prefix)]
    return {
        _name(entry, prefix): _parse(entry) for entry in sorted(entries, key=lambda each: each.key)
    }


def _name(entry: metadata.KeyValue, prefix: bytes) -> str:
    try:
        return entry.key.removeprefix(prefix).decode()
    except UnicodeDecodeError:
        text = f"the metadata store holds {entry.key!r}, which is no name: delete that key"
        raise StorageError(text) from None


def _parse(entry: metadata.KeyValue) -> dict[str, str]:
    try:
        match json.loads(entry.value):
            case {"version": 1, "config": dict(own)}:
                return {str(name): str(text) for name, text in own.items()}
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged {entry.key!r}: {entry.value!r}")
