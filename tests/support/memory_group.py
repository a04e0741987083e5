"""A memory cgroup for a process under test: version 1 or 2, whichever can be created here."""

import os
import re
from pathlib import Path

import pytest

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group that a process enters before it executes its program."""

    def __init__(self) -> None:
        """Create it; skip with the reason if that is impossible."""
        is_v2 = (V2 / "cgroup.controllers").exists()
        parent = V2 if is_v2 else V1
        self.path = parent / f"polylog-test-{os.getpid()}"
        self._limit = self.path / ("memory.max" if is_v2 else "memory.limit_in_bytes")
        self._events = self.path / ("memory.events" if is_v2 else "memory.oom_control")
        self._resident = "anon" if is_v2 else "rss"
        try:
            self.path.mkdir()
        except OSError as error:
            pytest.skip(f"no memory cgroup can be made here: {error}")
        if not self._limit.exists():
            self.path.rmdir()
            pytest.skip("no memory controller in the cgroups of this machine")

    def entered_by(self, command: list[str]) -> list[str]:
        """Return a command whose process is in the group from its first page on."""
        procs = self.path / "cgroup.procs"
        return ["sh", "-c", f'echo $$ > "{procs}" && exec "$@"', "sh", *command]

    def resident(self) -> int:
        """Return the bytes that cannot be reclaimed, unlike files in the page cache."""
        stat = (self.path / "memory.stat").read_text()
        found = re.search(rf"^{self._resident} (\d+)$", stat, re.MULTILINE)
        assert found is not None, stat
        return int(found.group(1))

    def limit(self, size: int) -> None:
        """Limit it to that many bytes, files in the page cache included."""
        self._limit.write_text(str(size))

    def kills(self) -> int:
        """Return how often the kernel has killed a process of it for lack of memory."""
        found = re.search(r"^oom_kill (\d+)$", self._events.read_text(), re.MULTILINE)
        assert found is not None, self._events.read_text()
        return int(found.group(1))

    def remove(self) -> None:
        """Remove it; its processes have ended."""
        self.path.rmdir()
