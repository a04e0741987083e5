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
    """What is added to the wall clock of those whom it is shown to."""

    def __init__(self, folder: Path) -> None:
        """Compile the library; a skip says that there is no compiler."""
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
        """Let the wall clock be so far from the right one."""
        mode = "r+b" if self._file.exists() else "w+b"
        with self._file.open(mode, buffering=0) as file:
            file.write(struct.pack("=q", step_ms * 1_000_000))
        self.step_ms = step_ms

    def shown_to(self, command: list[str]) -> list[str]:
        """The command of a process that sees it."""
        return ["env", *self._environment, *command]

    def wall_ms(self) -> int:
        """What those processes see."""
        return time.time_ns() // 1_000_000 + self.step_ms
