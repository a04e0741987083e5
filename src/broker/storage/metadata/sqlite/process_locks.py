"""Locks on bytes of an empty file, which the kernel frees when their process ends, however it ends.

Byte N is the lock of lease N; one more byte is held while a process creates or converts the store.
They are locks of the open file (F_OFD_SETLK, fcntl(2)): they conflict between two stores of one
process as well, and end when the file is closed, or when a process that has inherited it ends too.
"""

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.model import limits
from broker.model.errors import DataDirError, StorageError

LEASE_IDS = 1 << 62  # lease ids are lower
_OPENING = LEASE_IDS
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid
_PAUSE_SECONDS = 0.01


class ProcessLocks:
    """The locks of one open store."""

    def __init__(self, path: Path) -> None:
        """Open the file, which is created if it does not exist."""
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._own: set[int] = set()

    def take(self, lease_id: int) -> None:
        """Hold the lock of a new lease; BlockingIOError when another process holds it."""
        self._set(fcntl.F_WRLCK, lease_id)
        self._own.add(lease_id)

    def free(self, lease_id: int) -> None:
        """Free the lock of a lease, if this store holds it."""
        if lease_id in self._own:
            self._own.remove(lease_id)
            self._set(fcntl.F_UNLCK, lease_id)

    def is_held(self, lease_id: int) -> bool:
        """Whether the process of a lease lives."""
        if lease_id in self._own:  # does not conflict with itself
            return True
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, lease_id, 1, 0)
        found = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, wanted)
        return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Let one process at a time open the store; DataDirError when that takes too long."""
        if not self._wait(_OPENING, limits.METADATA_BUSY_SECONDS):
            raise DataDirError(f"{self._path} is held by a process that opens the metadata store")
        try:
            yield
        finally:
            self._set(fcntl.F_UNLCK, _OPENING)

    @contextmanager
    def held(self, byte: int, seconds: float) -> Iterator[None]:
        """Hold a lock; StorageError when another process does not free it within this time."""
        if not self._wait(byte, seconds):
            raise StorageError(f"{self._path}: another process has held lock {byte:x} too long")
        try:
            yield
        finally:
            self._set(fcntl.F_UNLCK, byte)

    def close(self) -> None:
        """Free all locks."""
        self._file.close()

    def _wait(self, byte: int, seconds: float) -> bool:
        for _ in range(int(seconds / _PAUSE_SECONDS) + 1):
            try:
                self._set(fcntl.F_WRLCK, byte)
            except BlockingIOError:
                time.sleep(_PAUSE_SECONDS)
            else:
                return True
        return False

    def _set(self, kind: int, byte: int) -> None:
        lock = _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, lock)
