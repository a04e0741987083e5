"""Settings of Spark's Python workers that make small tasks cheaper.

Spark reuses its workers, and each runs a full garbage collection after every task. A collection
mostly visits modules and their tables, which live as long as the worker. It takes tens of
milliseconds, more than a small task of a stream.

A task fetches and decodes some megabytes at a time. glibc returns such memory to the kernel when it
is freed, and the kernel clears each page when it is allocated again.

Spark sends a task to a worker over TCP in two parts: the code, then its input. Nagle's algorithm
(RFC 896) is not disabled on that connection, so the second part waits for the acknowledgement of
the first, which the worker's kernel delays by 40 ms (RFC 1122, 4.2.3.2).

A worker also runs tasks of other programs. With the option tuneWorkers=false a read or write does
not change the worker's garbage collector, memory settings or connections. Settings that an
earlier task has changed stay until the process ends.
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


class TaskCode:
    """A base class of objects that Spark pickles into the code of a task.

    Unpickling acknowledges the code at once, so that the task's input is not delayed.

    Attributes:
        tunes_worker: whether connections of the unpickling process may be changed.
    """

    tunes_worker = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the pickled attributes and acknowledge their arrival."""
        vars(self).update(state)
        if self.tunes_worker:
            acknowledge()


def acknowledge() -> None:
    """Acknowledge at once what the sockets of this process have received (on Linux only)."""
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
    """Adjust the worker process at the begin of a task; do nothing outside of Spark's workers.

    The first task keeps freed memory in the process from then on. The second excludes all existing
    objects from later garbage collections: the first has imported everything that tasks need, and
    its garbage has just been collected.
    """
    if TaskContext.get() is None:
        return
    number = next(_TASKS)
    if number == 0:
        keep_memory()
    elif number == 1:
        gc.freeze()


def keep_memory() -> None:
    """Keep freed memory in this process for reuse; do nothing without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_THRESHOLD, WORKER_BLOCK_BYTES)
    mallopt(_TRIM_THRESHOLD, WORKER_FREE_BYTES)
    mallopt(_ARENA_MAX, 1)  # each has free memory, and each prefetch a new thread
