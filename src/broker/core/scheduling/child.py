"""A process that the broker starts: another module of it, with pipes to and from it."""

import asyncio
import os
import sys
from pathlib import Path

import broker


async def start(module: str, line_bytes_max: int) -> asyncio.subprocess.Process:
    """Run a module; a line that it writes to stdout has at most so many bytes."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=line_bytes_max,
        env=environment(),
        start_new_session=True,  # Ctrl-C reaches only the broker, which then ends this process
    )


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process unless it has ended, and wait until it has."""
    assert process.stdin is not None
    if process.returncode is None:
        process.kill()
    process.stdin.close()  # while it is open, the process knows that its parent lives
    await process.wait()


def environment() -> dict[str, str]:
    """Return an environment in which the child imports the same code as this process."""
    here = str(Path(broker.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = here if not inherited else os.pathsep.join((here, inherited))
    return os.environ | {"PYTHONPATH": path}
