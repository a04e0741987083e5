"""Programs in other languages: their build tools may be missing, and they are fetched once.

They are kept under the git-ignored build/ folder.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "build"
FETCH_TIMEOUT_S = 600
RUN_TIMEOUT_S = 180
OLD_KAFKA_PYTHON = pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="releases of kafka-python before 2.1 cannot be imported by Python 3.12 or later",
)


class UnavailableError(Exception):
    """A program is not available here; the message says why."""


def needs(program: str, to_do: str) -> None:
    """Raise unless a program is on the path."""
    if not shutil.which(program):
        raise UnavailableError(f"no {program} on the path to {to_do} with")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Serialize fetching and building between test processes, which share the folder."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".fetching").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch_with(command: Sequence[str], folder: Path) -> None:
    """Let a package manager fetch the dependencies of the project in that folder."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-500:]
        raise UnavailableError(f"{command[0]} could not fetch what the tests need: {said}")


def run(
    command: Sequence[str], folder: Path | None = None, timeout_s: float = RUN_TIMEOUT_S
) -> str:
    """Run a program and return what it printed; fail unless it exits with 0."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def facts_of(printed: str) -> dict[str, str]:
    """Return the `name=value` lines of what a program printed."""
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
