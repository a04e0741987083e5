"""Programs around a job that kill themselves -9, and how a drill runs them.

A drill starts the same job repeatedly; each time the whole process group dies at once, driver, JVM
and workers, at one of the job's places. Finally it runs to its end.
"""

import os
import signal
import subprocess
import sys
from types import ModuleType

TIMEOUT_S = 300
_DRIVER = "KILLED_DRIVER_PID"


def remember_driver() -> None:
    """Mark the workers as belonging to this program: they inherit the environment."""
    os.environ[_DRIVER] = str(os.getpid())


def die() -> None:
    """Kill the driver and its JVM, then the workers, whose daemon has its own process group."""
    os.killpg(os.getpgid(int(os.environ[_DRIVER])), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def run_until_killed(program: ModuleType, *arguments: object) -> None:
    """Run a program that kills itself; any other end is an error."""
    ended = subprocess.run(
        [sys.executable, "-m", program.__name__, *map(str, arguments)],
        check=False,
        start_new_session=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, "src"])},
    )
    assert ended.returncode == -signal.SIGKILL, f"{program.__name__} {arguments}: {ended}"
