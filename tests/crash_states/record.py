"""What the disk is told in one life, and what anybody is told between."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from broker._native.kernel import file_ops

if TYPE_CHECKING:
    from pathlib import Path

    from broker._native.log.commit import CommitThread
    from tests.crash_states.disk import Operation

_SYNCS = {"sync_data", "sync", "sync_folder"}


class Event(NamedTuple):
    """Something that a client knows once so many operations are done."""

    place: int
    name: str  # a method of ExpectedState
    arguments: tuple[Any, ...]
    named: dict[str, Any]


class Record:
    """Operations on the disk, and what was said between them.

    Nothing runs beside: a sync is of what is there at `begin_syncs`, and counts from `end_syncs`.
    """

    def __init__(self, root: "Path") -> None:
        self._root = os.path.realpath(root)
        self.operations: list[Operation] = []
        self.events: list[Event] = []
        self._running: list[Operation] = []  # the ends of syncs that have begun
        self._syncs = 0

    def tell(self, name: str, *arguments: Any, **named: Any) -> None:
        """Say something, between what was done so far and what follows."""
        self.drain()
        self.events.append(Event(len(self.operations), name, arguments, named))

    def commit(self, file: "Path", content: bytes) -> None:
        """A transaction of the metadata store is on the disk."""
        self.drain()
        self.operations.append(("commit", str(file), 0, len(content), content, 0))

    def begin_syncs(self, commit: "CommitThread") -> None:
        """Sync what waits: what is written from now on is not meant."""
        self.drain()
        first = len(self.operations)
        commit.run()
        self.drain()
        for at, (op, path, *_, result) in enumerate(self.operations[first:], first):
            if op in _SYNCS and result >= 0:
                self._syncs += 1
                self.operations[at] = ("begin_sync", path, self._syncs, 0, b"", 0)
                self._running.append(("end_sync", path, self._syncs, 0, b"", 0))

    def end_syncs(self) -> None:
        """What was synced is on the disk; its log hears of it next."""
        self.drain()
        self.operations += self._running
        self._running.clear()

    def drain(self) -> None:
        # Whenever the collector comes by a life that has ended, it closes its files.
        self.operations += [each for each in file_ops.recorded() if self._is_own(each[1])]
        file_ops.start_recording()

    def _is_own(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")
