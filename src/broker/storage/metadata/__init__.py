"""The interface of the metadata store: a small ordered map that decides which topics exist.

Topics, their ids and configurations, and blocks of producer ids are stored under the keys below,
always through this interface, so that a cluster's etcd can replace the SQLite file of one broker.
Every change increments the store's revision. A transaction applies all its operations or none: its
guards compare what the caller has read with the present state, so two writers never overwrite each
other's changes. Values are JSON objects with a `version` field, readable with the store's own
shell.

Calls are synchronous and durable on return. They may come from any thread and run one at a time:
from the loop at start and stop, from the I/O thread in between, and from a thread that recovers
logs when it needs a new leader epoch. A change costs one fdatasync (about 0.5 ms), a read
microseconds.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text


class KeyValue(NamedTuple):
    """One key as stored."""

    key: bytes
    value: bytes
    create_revision: int  # of the change that made the key
    mod_revision: int  # of the last change to it


class Absent(NamedTuple):
    """Guard: the key does not exist."""

    key: bytes


class Unchanged(NamedTuple):
    """Guard: the key exists and was last changed at this revision."""

    key: bytes
    mod_revision: int


class CreatedAt(NamedTuple):
    """Guard: the key exists and was created at this revision, whatever its value is now."""

    key: bytes
    create_revision: int


class Put(NamedTuple):
    """Operation: set a key; with a lease the key is deleted when that ends."""

    key: bytes
    value: bytes
    lease_id: int = 0  # 0: none


class Delete(NamedTuple):
    """Operation: remove a key, if it exists."""

    key: bytes


class Event(NamedTuple):
    """A change of one key, as a watch yields it."""

    key: bytes
    entry: KeyValue | None  # None: the key was deleted
    revision: int


class Changes(NamedTuple):
    """Some changes that follow one another, and the revision of the last one."""

    revision: int
    events: Sequence[Event]


class Unavailable(StorageError):  # noqa: N818 (as DiskFull)
    """The store has not answered in time; nothing was changed."""


class OutcomeUnknown(StorageError):  # noqa: N818 (as DiskFull)
    """A change was sent and its answer was lost: it may have been applied, or may yet be."""


class Compacted(Exception):  # noqa: N818 (nothing has failed)
    """Changes from a revision on are no longer all known: scan, and watch from there."""

    def __init__(self, revision: int) -> None:
        """Keep the first revision that can still be watched."""
        super().__init__(f"compacted up to revision {revision}")
        self.revision = revision


Guard: TypeAlias = Absent | Unchanged | CreatedAt
Operation: TypeAlias = Put | Delete


class MetaStore(Protocol):
    """A metadata store. StorageError means that the disk failed and nothing was changed."""

    def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None."""

    def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read."""

    def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None."""

    def close(self) -> None:
        """Release the store; it cannot be used afterwards."""


PRODUCER_ID_BLOCK = b"pid_block"
TOPICS = b"topic/"
TOPIC_CONFIGS = b"conf/topic/"
BROKER_CONFIGS = b"conf/broker/"
GROUP_CONFIGS = b"conf/group/"
DELETED_TOPICS = b"deleted/"


def deleted_topic_key(topic_id: bytes) -> bytes:
    """Return the key of a deleted topic, kept until its folders are gone."""
    return DELETED_TOPICS + id_to_text(topic_id).encode()


def topic_key(name: str) -> bytes:
    """Return the key of a topic: its id, partitions, replication factor, time of creation."""
    return TOPICS + name.encode()


def topic_id_key(topic_id: bytes) -> bytes:
    """Return the key of a topic id, whose value is the topic's name."""
    return b"topicid/" + id_to_text(topic_id).encode()


def topic_config_key(name: str) -> bytes:
    """Return the key of a topic's own configuration."""
    return TOPIC_CONFIGS + name.encode()


def broker_config_key(name: str) -> bytes:
    """Return the key of the dynamic configuration of a broker id, or of all brokers for ""."""
    return BROKER_CONFIGS + name.encode()


def group_config_key(group_id: str) -> bytes:
    """Return the key of a group's own configuration."""
    return GROUP_CONFIGS + group_id.encode()
