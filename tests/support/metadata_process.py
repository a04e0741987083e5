"""A process that shares a metadata store with a test: `metadata_process.py PATH ACTION`.

It prints a line when it has done what its action says, and continues with a line of its input.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from broker.core.scheduling.io_thread import IoThread
from broker.storage.metadata import Put
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore
from broker.storage.metadata.sqlite.store import AsyncSqliteMetaStore

SECONDS = 30  # far more than any action takes


class MetadataProcess:
    """One such process, killed at the end of its context."""

    def __init__(self, path: Path, action: str) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(path), action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Wait for its next line and return it; "" when it has ended. It prints one at a time."""
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], SECONDS)[0], "it prints nothing"
        return self._process.stdout.readline().strip()

    def proceed(self) -> None:
        """Let it continue."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, sent: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, sent)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def _say(line: object) -> None:
    print(line, flush=True)


def _put_at_each_line(path: Path) -> None:
    """Commit a number at each line of input; also before the first."""
    store = SharedSqliteMetaStore(path)
    for number, _ in enumerate(chain([""], sys.stdin)):
        _say(store.transact([], [Put(b"number", b"%d" % number)]))


def _create(path: Path) -> None:
    """Open the store after a line of input, at the same time as others, and add a key."""
    _say("ready")
    sys.stdin.readline()
    store = SharedSqliteMetaStore(path)
    _say(store.transact([], [Put(b"%d" % os.getpid(), b"")]))


def _write_half(path: Path) -> None:
    """Write 8 MiB within a transaction that does not end before a line of input."""
    store = SharedSqliteMetaStore(path)
    execute = store._connection.execute
    execute("PRAGMA cache_size = 10")  # most of it goes to the write-ahead log
    execute("BEGIN IMMEDIATE")
    for number in range(8):
        row = (b"half%d" % number, bytes(1 << 20), 1_000, 1_000)
        execute("INSERT INTO kv VALUES (?, ?, ?, ?)", row)
    execute("UPDATE revision SET revision = 1000")
    _say("inside")
    sys.stdin.readline()
    execute("ROLLBACK")
    _say("over")
    sys.stdin.readline()


def _hold_lease(path: Path, seconds: int) -> None:
    """Attach a key to a lease; say when that is lost."""

    async def hold() -> None:
        store = AsyncSqliteMetaStore(SharedSqliteMetaStore(path), IoThread())
        lease = await store.lease(seconds)
        _say(await store.transact([], [Put(b"broker/1", b"", lease.id)]))
        await lease.lost.wait()
        _say(f"lost, held: {lease.is_held}")
        await asyncio.sleep(seconds)

    asyncio.run(hold())


_ACTIONS: dict[str, Callable[[Path], None]] = {
    "put": _put_at_each_line,
    "create": _create,
    "write half": _write_half,
    "lease of 60 s": lambda path: _hold_lease(path, 60),
    "lease of 1 s": lambda path: _hold_lease(path, 1),
}

if __name__ == "__main__":
    _ACTIONS[sys.argv[2]](Path(sys.argv[1]))
