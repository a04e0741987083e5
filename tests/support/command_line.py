"""The command `broker` in processes of its own, as a person or a script runs it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 120


@dataclass
class Ended:
    """What a command has left."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class CommandLine:
    """Commands for one broker."""

    address: str
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "broker", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "BROKER_BOOTSTRAP_SERVER": self.address,
                "NO_COLOR": "1",
                **self.environment,
            },
        )

    def __call__(self, *words: str, stdin: bytes = b"", code: int = 0) -> Ended:
        """Run a command; it must end with the exit code."""
        with self.start(*words) as process:
            out, err = process.communicate(stdin, timeout=TIMEOUT_S)
        ended = Ended(process.returncode, out, err.decode())
        assert ended.code == code, (words, ended)
        return ended
