"""The leader epochs of a start: batches appended after it have one that no earlier run has used.

standalone     the number of unclean starts of the data directory, kept in the metadata store
in a cluster   that of the leader's election, with which a log begins once it is open
"""

import json
from threading import Lock
from typing import Protocol

from broker.storage.metadata import Put
from broker.storage.metadata.blocking import BlockingMetaStore


class Epochs(Protocol):
    """The leader epoch that the logs of a start begin with."""

    @property
    def current(self) -> int:
        """The epoch of this start; 0 in a cluster."""

    @property
    def are_elected(self) -> bool:
        """Whether the brokers of a cluster elect who leads, and each log may have replicas."""

    def begin(self, *, is_clean: bool) -> None:
        """Begin after a clean or an unclean stop; StorageError when the store fails."""

    def raised(self, leader_epoch: int) -> int:
        """Return a durable epoch above those of earlier runs, and above that of a log.

        Called from a thread that recovers a log whose files have changed since a clean stop.
        """


class UncleanStarts:
    """The epochs of a standalone broker."""

    are_elected = False

    def __init__(self, store: BlockingMetaStore, node_id: int) -> None:
        """Keep where the number of unclean starts is stored."""
        self._store = store
        self._node_id = node_id
        self._raising = Lock()
        self._is_raised = False
        self.current = 0

    def begin(self, *, is_clean: bool) -> None:
        """Read the number after a clean stop, else make the next one durable."""
        is_new = not is_clean and self._store.get(_key(self._node_id)) is None
        if is_clean or (is_new and not self._store.scan(b"topic/")[0]):
            self.current = unclean_starts(self._store, self._node_id)
        else:
            self.current = self._raise()
        self._is_raised = not is_clean

    def raised(self, leader_epoch: int) -> int:
        """Count this start as unclean, once; more often, if the log's epoch is of another store."""
        with self._raising:
            if not self._is_raised or self.current <= leader_epoch:
                self.current = self._raise(leader_epoch)
                self._is_raised = True
            return self.current

    def _raise(self, used: int = 0) -> int:
        epoch = max(unclean_starts(self._store, self._node_id), used) + 1
        set_unclean_starts(self._store, self._node_id, epoch)
        return epoch


class ElectedEpochs:
    """The epochs of a broker in a cluster: each of its incarnations is elected with a new one."""

    current = 0
    are_elected = True

    def begin(self, *, is_clean: bool) -> None:
        """Do nothing."""

    def raised(self, leader_epoch: int) -> int:
        """Return the log's own epoch: that of the election is above it."""
        return leader_epoch


def unclean_starts(store: BlockingMetaStore, node_id: int) -> int:
    """Return the number of unclean starts of a standalone broker, 0 if it has had none."""
    entry = store.get(_key(node_id))
    return int(json.loads(entry.value)["unclean_starts"]) if entry else 0


def set_unclean_starts(store: BlockingMetaStore, node_id: int, count: int) -> None:
    """Make the number of unclean starts durable. Raises StorageError."""
    value = json.dumps({"version": 1, "unclean_starts": count}).encode()
    store.transact([], [Put(_key(node_id), value)])


def _key(node_id: int) -> bytes:
    return b"node/%d" % node_id
