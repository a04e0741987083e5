"""The metadata store: a small ordered map that decides what exists.

Topics, their ids and configs, producer-id blocks live here, under the keys below, behind this
interface and nowhere else, so that a cluster's etcd can stand in for the SQLite file of one broker.
Every change raises the store's revision by one. A transaction applies all its operations or none:
its guards compare what the caller saw with what is there, which is how two writers never undo each
other. Values are JSON objects with a `version` field, readable with the store's own shell.

Calls are synchronous and durable on return, from any thread, one after the other: the loop at start
and stop, the I/O thread between, and a thread that recovers logs when it needs a new leader epoch;
a change costs one fdatasync (about 0.5 ms), a read microseconds.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from broker.model.identifiers import id_to_text


class KeyValue(NamedTuple):
    """One key as the store holds it."""

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
    """Guard: the key exists and was made at this revision, whatever its value became."""

    key: bytes
    create_revision: int


class Put(NamedTuple):
    """Operation: set a key."""

    key: bytes
    value: bytes


class Delete(NamedTuple):
    """Operation: remove a key; one that does not exist stays so."""

    key: bytes


Guard: TypeAlias = Absent | Unchanged | CreatedAt
Operation: TypeAlias = Put | Delete


class MetaStore(Protocol):
    """What both stores do. StorageError means that the disk failed and nothing was changed."""

    def get(self, key: bytes) -> KeyValue | None:
        """The key, or None."""

    def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """All keys that begin with prefix, in order, and the revision they were read at."""

    def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        """Apply the operations if every guard holds: the new revision, or None if one did not."""

    def close(self) -> None:
        """Release the store; it cannot be used afterwards."""


PRODUCER_ID_BLOCK = b"pid_block"
TOPICS = b"topic/"
TOPIC_CONFIGS = b"conf/topic/"
BROKER_CONFIGS = b"conf/broker/"
GROUP_CONFIGS = b"conf/group/"
DELETED_TOPICS = b"deleted/"


def deleted_topic_key(topic_id: bytes) -> bytes:
    """Where a deleted topic stands until its folders are gone."""
    return DELETED_TOPICS + id_to_text(topic_id).encode()


def topic_key(name: str) -> bytes:
    """Where a topic stands: its id, partitions, replication factor, time of creation."""
    return TOPICS + name.encode()


def topic_id_key(topic_id: bytes) -> bytes:
    """Where the name of a topic id stands."""
    return b"topicid/" + id_to_text(topic_id).encode()


def partition_key(topic_id: bytes, partition: int) -> bytes:
    """Where the leader and the replicas of a partition stand."""
    return b"part/" + id_to_text(topic_id).encode() + b"/%d" % partition


def topic_config_key(name: str) -> bytes:
    """Where a topic's own configuration stands."""
    return TOPIC_CONFIGS + name.encode()


def broker_config_key(name: str) -> bytes:
    """Where stands what was altered for a broker, by its id, or for all of them, by no name."""
    return BROKER_CONFIGS + name.encode()


def group_config_key(group_id: str) -> bytes:
    """Where a group's own configuration stands."""
    return GROUP_CONFIGS + group_id.encode()
