"""A program of Apache Kafka that runs until it is stopped, such as a worker of Connect."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

STOP_TIMEOUT_S = 60.0


class LongProcess:
    """The process, which may be started again after it was killed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Describe it; entering it starts it. What it says is appended to the file `log`."""
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def kill(self) -> None:
        """Kill -9: its transactions stay open, its group waits for its session to end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        """Stop it with SIGTERM, as an init system does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._process.kill()

    def has_ended(self) -> bool:
        """Whether it has ended, by itself or otherwise."""
        return self._process is None or self._process.poll() is not None

    def said(self) -> str:
        """Return all that it has said."""
        return self._log.read_text()

    def is_alive(self) -> bool:
        """Whether it runs; AssertionError with what it said if it does not."""
        assert self._process is not None
        assert self._process.poll() is None, self.said()[-5_000:]
        return True
