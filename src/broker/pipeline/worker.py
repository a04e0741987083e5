"""What a Python worker of Spark's does besides its tasks.

Spark keeps its workers, and has each collect all garbage behind every task. Most of what a
collection looks through are modules and their tables, which stay for as long as the worker: it
takes tens of milliseconds, more than a small task of a stream.
"""

import gc
from itertools import count
from typing import Final

from pyspark import TaskContext

_TASKS: Final = count()


def begin_task() -> None:
    """Say that a task begins; outside of Spark's workers nothing comes of it.

    The second one leaves what is there to later collections no more: the first has imported what
    tasks need, and its garbage has just been collected.
    """
    if TaskContext.get() is not None and next(_TASKS) == 1:
        gc.freeze()
