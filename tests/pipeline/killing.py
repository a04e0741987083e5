"""Programs around a job that kill themselves -9, and how a drill runs them.

A drill starts the same job again and again; each time the whole group of processes dies at once,
driver, JVM and workers, in one of the places that the job has. At last it runs to its end.
"""

import os
import signal
import subprocess
import sys
from types import ModuleType

TIMEOUT_S = 300
_DRIVER = "KILLED_DRIVER_PID"


def remember_driver() -> None:
    """Let workers know whom they belong to: they inherit it."""
    os.environ[_DRIVER] = str(os.getpid())


def die() -> None:
    """Kill the driver and its JVM, then the workers: their daemon has made a group of its own."""
    os.killpg(os.getpgid(int(os.environ[_DRIVER])), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def run_until_killed(program: ModuleType, *arguments: object) -> None:
    """Run a program that kills itself; that it ends in another way is an error."""
    ended = subprocess.run(
        [sys.executable, "-m", program.__name__, *map(str, arguments)],
        check=False,
        start_new_session=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, "src"])},
    )
    assert ended.returncode == -signal.SIGKILL, f"{program.__name__} {arguments}: {ended}"
