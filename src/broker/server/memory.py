"""The memory that this process may use: the machine's, or the limit of its control group.

    /proc/self/cgroup    the file with the limit, also for each parent group, in /sys/fs/cgroup
    0::/a/b              version 2: a/b/memory.max
    7:memory:/a/b        version 1: memory/a/b/memory.limit_in_bytes

(cgroups(7)) Inside a container the path is often not mounted; then only the root's limit counts.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def memory_bytes(proc: Path = _PROC, mount: Path = _MOUNT) -> int:
    """Return how many bytes this process may use in all, including the page cache of its files.

    Args:
        proc: the file with the groups of the process.
        mount: where the groups are mounted.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(proc, mount)])


def _limits(proc: Path, mount: Path) -> Iterator[int]:
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return  # a kernel without control groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _read_all(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _read_all(mount / "memory", path, "memory.limit_in_bytes")


def _read_all(root: Path, path: str, name: str) -> Iterator[int]:
    """Yield the limits of a group and of its parents; those that are not set are skipped."""
    folder = root / path.lstrip("/")
    for each in (folder, *folder.parents):
        try:
            text = (each / name).read_text().strip()
        except OSError:
            text = ""
        if text.isdecimal():
            yield int(text)
        if each == root:
            return
