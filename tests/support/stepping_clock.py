"""A broker process whose wall clock a test sets forward and back (`stepping_clock.c`)."""

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


class SteppingClock:
    """The offset added to the wall clock of processes under it."""

    def __init__(self, folder: Path) -> None:
        """Compile the library; skip without a compiler."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("needs a C compiler for a clock that steps")
        library = folder / "stepping_clock.so"
        command = [*compiler.split(), "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library)]
        subprocess.run([*command, str(SOURCE), "-ldl"], check=True)
        self._file = folder / "step_ns"
        self.step_ms = 0
        self.set(0)
        self._environment = [f"LD_PRELOAD={library}", f"POLYLOG_TEST_CLOCK={self._file}"]

    def set(self, step_ms: int) -> None:
        """Set how far the wall clock is from the true time."""
        mode = "r+b" if self._file.exists() else "w+b"
        with self._file.open(mode, buffering=0) as file:
            file.write(struct.pack("=q", step_ms * 1_000_000))
        self.step_ms = step_ms

    def shown_to(self, command: list[str]) -> list[str]:
        """Return the command of a process that sees the stepped clock."""
        return ["env", *self._environment, *command]

    def wall_ms(self) -> int:
        """Return the time that those processes see."""
        return time.time_ns() // 1_000_000 + self.step_ms
