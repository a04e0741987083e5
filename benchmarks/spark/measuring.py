"""Measures the wall time and the processor time by process of a Spark job."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


@dataclass(frozen=True)
class Cost:
    """Wall time, and processor time of the JVM, Python and the broker, in seconds.

    Python is Spark's workers and this process, which is Spark's driver.
    """

    seconds: float
    jvm: float
    workers: float
    broker: float

    @property
    def spark(self) -> float:
        """Processor seconds of Spark: JVM and Python."""
        return self.jvm + self.workers


def measured(job: Callable[[], float | None], jvm: int, broker: int) -> Cost:
    """Run a job and return its cost.

    Args:
        job: returns the seconds to count, or None to count all of its time.
        jvm: the process id of Spark's JVM.
        broker: the process id of the broker.
    """
    before = _used(jvm, broker)
    started = time.perf_counter()
    seconds = job()
    if seconds is None:
        seconds = time.perf_counter() - started
    after = _used(jvm, broker)
    workers = after.workers - before.workers
    workers += sum(used for pid, used in before.forgotten.items() if pid not in after.forgotten)
    return Cost(seconds, after.jvm - before.jvm, workers, after.broker - before.broker)


class _Used(NamedTuple):
    """Processor seconds of each process since its start.

    Attributes:
        jvm, workers, broker: as in Cost.
        forgotten: of `workers`, by process id: processes that ignore SIGCHLD of their children, as
            Spark's daemons do, do not add the children's times when these end.
    """

    jvm: float
    workers: float
    broker: float
    forgotten: dict[int, float]


def _used(jvm: int, broker: int) -> _Used:
    stats = {int(each.name): _stat(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found = {pid: stat for pid, stat in stats.items() if stat}
    parents = {pid: int(stat[_PARENT]) for pid, stat in found.items()}
    below = {pid: _seconds(found[pid], with_children=True) for pid in _descendants(jvm, parents)}
    workers = sum(below.values()) + _seconds(found[os.getpid()]) + _seconds_of_children(found[jvm])
    forgotten = {pid: used for pid, used in below.items() if parents[pid] != jvm}
    return _Used(_seconds(found[jvm]), workers, _seconds(found[broker]), forgotten)


def _stat(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _descendants(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = {each for each, above in parents.items() if above == parent}
        found |= children
        waiting += children
    return found


def _seconds(stat: list[str], *, with_children: bool = False) -> float:
    own = (int(stat[_USER]) + int(stat[_SYSTEM])) / _TICKS
    return own + _seconds_of_children(stat) if with_children else own


def _seconds_of_children(stat: list[str]) -> float:
    """Return the processor seconds of children that have ended."""
    return (int(stat[_CHILDREN_USER]) + int(stat[_CHILDREN_SYSTEM])) / _TICKS
