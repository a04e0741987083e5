"""What the disk is told in one run, and the acknowledgements in between."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from broker._native.kernel import file_ops

if TYPE_CHECKING:
    from pathlib import Path

    from broker._native.log.commit import CommitThread
    from tests.crash_states.disk import Operation

SYNCS = {"sync_data", "sync", "sync_folder"}


class Event(NamedTuple):
    """Something that a client knows after that many operations."""

    place: int
    name: str  # a method of ExpectedState
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class Record:
    """Operations on the disk, and the acknowledgements between them.

    Nothing runs concurrently: a sync covers what exists at `begin_syncs`, and counts from
    `end_syncs`.
    """

    def __init__(self, root: "Path") -> None:
        self._root = os.path.realpath(root)
        self.operations: list[Operation] = []
        self.events: list[Event] = []
        self._running: list[Operation] = []  # the ends of syncs that have begun
        self._syncs = 0

    def tell(self, name: str, *arguments: Any, **named: Any) -> None:
        """Record an acknowledgement between the operations so far and those that follow."""
        self.drain()
        self.events.append(Event(len(self.operations), name, arguments, named))

    def commit(self, file: "Path", content: bytes) -> None:
        """Record that a transaction of the metadata store is on the disk."""
        self.note(("commit", str(file), 0, len(content), content, 0))

    def note(self, operation: "Operation") -> None:
        """Record an operation that does not go through `file_ops`."""
        self.drain()
        self.operations.append(operation)

    def begin_syncs(self, commit: "CommitThread") -> None:
        """Begin the waiting syncs: later writes are not covered."""
        self.drain()
        first = len(self.operations)
        commit.run()
        self.drain()
        for at, (op, path, *_, result) in enumerate(self.operations[first:], first):
            if op in SYNCS and result >= 0:
                self._syncs += 1
                self.operations[at] = ("begin_sync", path, self._syncs, 0, b"", 0)
                self._running.append(("end_sync", path, self._syncs, 0, b"", 0))

    def end_syncs(self) -> None:
        """Complete the syncs; their logs are notified next."""
        self.drain()
        self.operations += self._running
        self._running.clear()

    def drain(self) -> None:
        # When the garbage collector frees an ended run, it closes its files.
        self.operations += [each for each in file_ops.recorded() if self._is_own(each[1])]
        file_ops.start_recording()

    def _is_own(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")
