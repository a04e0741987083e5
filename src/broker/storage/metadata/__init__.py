"""The interface of the metadata store: a small ordered map that decides which topics exist.

Topics, their ids and configurations, and blocks of producer ids are stored under the keys below; in
a cluster also its brokers, its controller and the state of partitions. Every change increments the
store's revision. A transaction applies all its operations or none: its guards compare what the
caller has read with the present state, so two writers never overwrite each other's changes. A watch
yields every change from a revision on. A lease deletes its keys when its owner stops renewing it.

Keys are UTF-8 text and values are JSON objects with a `version` field, readable with the store's
own shell. The store neither reads nor compares values: versions are a matter of their writers.

    etcd/              several hosts: a prefix of an etcd cluster
    sqlite/            one host: a file, of one process or of several
    renewed_lease.py   leases of both
    blocking.py        the calls that the SQLite file of one process also has without a loop

A change costs one fdatasync (about 0.5 ms with SQLite) or one round of etcd's members (1 to 2 ms).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from broker.model import limits
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


class StoreReplaced(StorageError):  # noqa: N818 (as DiskFull)
    """The store lacks changes that it has acknowledged before: it was restored, or is another."""


class Compacted(Exception):  # noqa: N818 (nothing has failed)
    """Changes from a revision on are no longer all known: scan, and watch from there."""

    def __init__(self, revision: int) -> None:
        """Keep the first revision that can still be watched."""
        super().__init__(f"compacted up to revision {revision}")
        self.revision = revision


Guard: TypeAlias = Absent | Unchanged | CreatedAt
Operation: TypeAlias = Put | Delete


class Lease(Protocol):
    """A right that ends unless it is renewed, which the store's own task does.

    Attributes:
        id: the store's number for it, for operations that attach keys to it.
        valid_until: seconds of the monotonic clock; the lease is held before.
        lost: set once the lease can no longer be relied on, also after `revoke` and `abandon`.
    """

    id: int
    valid_until: float
    lost: asyncio.Event

    @property
    def is_held(self) -> bool:
        """Whether the lease can be relied on at this moment."""

    def when_renewed(self, callback: Callable[[], None], /) -> None:
        """Have `callback` called after each renewal: `valid_until` has changed."""

    async def revoke(self) -> None:
        """Give the lease up: its keys are deleted now, not when it expires.

        StorageError when that fails; the lease expires then.
        """

    async def abandon(self) -> None:
        """Stop renewing; the store expires the lease."""


class MetaStore(Protocol):
    """A metadata store.

    Every call ends within about METADATA_CALL_SECONDS. It raises StorageError when the store has
    failed or refused it, and nothing was changed; Unavailable when there was no answer; only
    `transact` raises OutcomeUnknown. StoreReplaced is for good; a change that gets it may have been
    applied to what replaces the store.
    """

    async def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None. The read sees every change acknowledged before."""

    async def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read.

        A watch from the next revision on yields what the scan does not have.
        """

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None.

        A key appears in one operation at most.

        Raises:
            OutcomeUnknown: the answer was lost; the caller reads what is there now.
            ValueError: check_operations refuses the operations.
        """

    def watch(self, prefix: bytes, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Yield all changes of keys that begin with prefix, from a revision on, in order.

        Each Changes has all events of its revisions. An outage of the store delays a watch, without
        an error. It ends when the store is closed.

        Raises:
            Compacted: changes from that revision on are no longer all known; scan again.
            StorageError: the store refuses it, and would again.
        """

    async def lease(self, seconds: int) -> Lease:
        """Return a new lease of at least 1 s, which is renewed until it is revoked or lost."""

    async def close(self) -> None:
        """Stop renewing leases, which then expire, and release the store; watches end."""


def check_operations(operations: Sequence[Operation]) -> None:
    """Raise ValueError for what etcd refuses, so that data can be moved there."""
    if len(operations) > limits.METADATA_OPS_PER_TRANSACTION_MAX:
        raise ValueError(f"{len(operations)} operations in one metadata transaction")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("two operations on one key in one metadata transaction")
    for operation in operations:
        if len(operation.key) > limits.METADATA_KEY_BYTES_MAX:
            raise ValueError(f"a metadata key of {len(operation.key)} bytes")
        if isinstance(operation, Put) and len(operation.value) > limits.METADATA_VALUE_BYTES_MAX:
            raise ValueError(f"a metadata value of {len(operation.value)} bytes")


def prefix_end(prefix: bytes) -> bytes:
    """Return the least key greater than all keys with this prefix; b"" if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""


MOVED_TO = b"moved_to"  # another store has all metadata: no broker starts with this one
PRODUCER_ID_BLOCK = b"pid_block"
TOPICS = b"topic/"
TOPIC_CONFIGS = b"conf/topic/"
BROKER_CONFIGS = b"conf/broker/"
GROUP_CONFIGS = b"conf/group/"
DELETED_TOPICS = b"deleted/"
SECURITY = b"security/"
WORKERS = b"workers"  # ids of the brokers that share a data directory (server/workers/layout.py)


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


def security_key(kind: str, name: str) -> bytes:
    """Return the key of an entry of one kind (core/cluster/security_entries.py)."""
    return SECURITY + f"{kind}/{name}".encode()
