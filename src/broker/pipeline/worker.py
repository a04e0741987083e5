"""What a Python worker of Spark's does besides its tasks.

Spark keeps its workers, and has each collect all garbage behind every task. Most of what a
collection looks through are modules and their tables, which stay for as long as the worker: it
takes tens of milliseconds, more than a small task of a stream.

Every task fetches and decodes some megabytes at a time. glibc gives such memory back to the kernel
as it is freed, and the kernel clears each page that is asked for again.

Spark hands a task to a worker in two pieces over TCP: the code, then its input. It has not switched
off Nagle's algorithm (RFC 896), so the second piece waits until the first is acknowledged, and the
worker's kernel takes 40 ms for that, having nothing else to send (RFC 1122, 4.2.3.2).

A worker serves other programs' tasks too. With the option tuneWorkers=false a read or write leaves
the worker's collector, its memory and its connections as they are. What an earlier task with the
option has set stays for as long as the process.
"""

import ctypes
import gc
import socket
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext

from broker.model.limits import WORKER_BLOCK_BYTES, WORKER_FREE_BYTES

_TASKS: Final = count()
_OPEN_FILES: Final = Path("/proc/self/fd")
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)  # Linux has it
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


class Shipped:
    """A base of what Spark pickles into the code of a task: no input waits for its arrival.

    Attributes:
        tunes_worker: whether it may change the connections of the process that it is unpickled in.
    """

    tunes_worker = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was pickled."""
        vars(self).update(state)
        if self.tunes_worker:
            acknowledge()


def acknowledge() -> None:
    """Acknowledge what the sockets of this process have received, now; elsewhere do nothing."""
    if _QUICKACK is None or not _OPEN_FILES.exists():
        return
    for each in _OPEN_FILES.iterdir():
        with suppress(OSError):  # not TCP, or closed meanwhile
            if each.is_socket():
                connection = socket.socket(fileno=int(each.name))
                try:
                    connection.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
                finally:
                    connection.detach()


def begin_task() -> None:
    """Say that a task begins; outside of Spark's workers nothing comes of it.

    The first one has memory kept from then on. The second leaves what is there to later collections
    no more: the first has imported what tasks need, and its garbage has just been collected.
    """
    if TaskContext.get() is None:
        return
    turn = next(_TASKS)
    if turn == 0:
        keep_memory()
    elif turn == 1:
        gc.freeze()


def keep_memory() -> None:
    """Have this process keep what it frees, for its next use; without glibc do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_THRESHOLD, WORKER_BLOCK_BYTES)
    mallopt(_TRIM_THRESHOLD, WORKER_FREE_BYTES)
    mallopt(_ARENA_MAX, 1)  # each has free memory of its own, and each prefetch a new thread
