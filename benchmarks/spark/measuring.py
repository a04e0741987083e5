"""Time of the clock and of the processors, by process, of one Spark job."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


@dataclass(frozen=True)
class Cost:
    """Seconds of the clock, and of processors: in the JVM, in Python, in the broker.

    Python's are Spark's workers and the program that measures, which is Spark's driver.
    """

    seconds: float
    jvm: float
    workers: float
    broker: float

    @property
    def spark(self) -> float:
        """Processor seconds on Spark's side."""
        return self.jvm + self.workers


def measured(job: Callable[[], float | None], jvm: int, broker: int) -> Cost:
    """Run a job; what it costs is told by the ids of the two processes.

    Args:
        job: returns the seconds that count, or None when all of its time does.
        jvm: Spark's.
        broker: whose costs count.
    """
    before = _used(jvm, broker)
    started = time.perf_counter()
    seconds = job()
    if seconds is None:
        seconds = time.perf_counter() - started
    after = _used(jvm, broker)
    return Cost(seconds, *(late - early for early, late in zip(before, after, strict=True)))


def _used(jvm: int, broker: int) -> tuple[float, float, float]:
    stats = {int(each.name): _stat(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found = {pid: stat for pid, stat in stats.items() if stat}
    below = _descendants(jvm, {pid: int(stat[_PARENT]) for pid, stat in found.items()})
    workers = sum(_seconds(found[pid], with_children=True) for pid in below)
    workers += _seconds(found[os.getpid()]) + _seconds_of_children(found[jvm])
    return _seconds(found[jvm]), workers, _seconds(found[broker])


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
    """Of workers that have ended meanwhile."""
    return (int(stat[_CHILDREN_USER]) + int(stat[_CHILDREN_SYSTEM])) / _TICKS
