"""Facts from the kernel: processor time, memory, dirty pages; sets the cores of a process."""

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STAT_IDLE, STAT_IOWAIT, STAT_STEAL, STAT_COLUMNS = 3, 4, 7, 8

DIRTY_BYTES_MAX = 16 << 20  # below this, the cost of writeback is negligible
DRAIN_SECONDS_MAX = 20.0
DRAIN_POLL_SECONDS = 0.05

CPUCLOCK_SCHED = 2  # linux/posix-timers.h


@dataclass(frozen=True)
class MachineTime:
    """Processor seconds of all cores since boot."""

    busy: float
    stolen: float  # by other virtual machines of the host


@dataclass(frozen=True)
class Memory:
    """Memory of a process in bytes: anonymous pages (RssAnon), and its share of all pages (PSS)."""

    rss_anon: int
    pss: int


def process_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, including ended ones.

    It is the clock of clock_getcpuclockid(3), which /proc/PID/stat rounds to 10 ms.
    """
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def loop_seconds(pid: int) -> float:
    """Return the processor time of a process's main thread: of our broker, the event loop."""
    nanoseconds, _, _ = (PROC / f"{pid}/task/{pid}/schedstat").read_text().split()
    return int(nanoseconds) / 1e9


def machine_time() -> MachineTime:
    """Return the times in /proc/stat, which include the kernel's own threads."""
    columns = (PROC / "stat").read_text().splitlines()[0].split()[1 : 1 + STAT_COLUMNS]
    ticks = [int(column) for column in columns]
    stolen = ticks[STAT_STEAL]
    idle = ticks[STAT_IDLE] + ticks[STAT_IOWAIT]
    return MachineTime((sum(ticks) - idle - stolen) / TICKS_PER_SECOND, stolen / TICKS_PER_SECOND)


def _kilobytes(path: Path, *names: str) -> int:
    wanted = {f"{name}:" for name in names}
    lines = (line.split() for line in path.read_text().splitlines())
    return sum(int(words[1]) << 10 for words in lines if words and words[0] in wanted)


def memory(pid: int) -> Memory:
    """Return the current memory of a process."""
    return Memory(
        rss_anon=_kilobytes(PROC / str(pid) / "status", "RssAnon"),
        pss=_kilobytes(PROC / str(pid) / "smaps_rollup", "Pss"),
    )


def drain() -> None:
    """Write dirty pages to the disk, so that they do not add to the cost of the next trial."""
    os.sync()
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while time.monotonic() < deadline:
        if _kilobytes(PROC / "meminfo", "Dirty", "Writeback") < DIRTY_BYTES_MAX:
            return
        time.sleep(DRAIN_POLL_SECONDS)


def allow_cores(pid: int, cores: set[int]) -> None:
    """Restrict all threads of a process to some cores."""
    for thread in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


@contextlib.contextmanager
def separate_cores(pid: int, *, pinned: bool) -> Iterator[None]:
    """Pin a process and the programs started meanwhile to separate cores, if there are two."""
    cores = os.sched_getaffinity(0)
    if not pinned or len(cores) == 1:
        yield
        return
    generator, broker = sorted(cores)[:2]
    allow_cores(pid, {broker})
    os.sched_setaffinity(0, {generator})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        allow_cores(pid, cores)


def describe() -> dict[str, str | int]:
    """Return facts about the machine."""
    info = (PROC / "cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "memory_bytes": _kilobytes(PROC / "meminfo", "MemTotal"),
    }
