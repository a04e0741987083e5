"""Runs the compactor process: sends it a job, receives its messages, always ends it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from broker.core.scheduling import child
from broker.model import limits
from broker.storage.maintenance.compactor import Job

Message: TypeAlias = dict[str, Any]

_MODULE = "broker.storage.maintenance.compactor"


class CompactorFailedError(Exception):
    """The process has ended, or has stalled, without reporting a reason."""


@asynccontextmanager
async def compacting(job: Job) -> AsyncIterator[AsyncIterator[Message]]:
    """Start a process for the job and yield its messages; at the exit the process has ended."""
    process = await child.start(_MODULE, limits.COMPACTION_LINE_BYTES_MAX)
    assert process.stdin is not None
    assert process.stdout is not None
    messages = _messages(process, process.stdout)
    try:
        _send(process.stdin, job)
        yield messages
    finally:
        await messages.aclose()
        await child.end(process)


def _send(pipe: asyncio.StreamWriter, job: Job) -> None:
    try:
        pipe.write(json.dumps(job._asdict()).encode() + b"\n")
    except (OSError, RuntimeError) as error:  # RuntimeError: of uvloop, for a pipe that is closed
        raise CompactorFailedError(f"the process ended at its start: {error}") from error


async def _messages(
    process: asyncio.subprocess.Process, output: asyncio.StreamReader
) -> AsyncGenerator[Message, None]:
    while True:
        try:
            async with asyncio.timeout(limits.COMPACTION_STALLED_SECONDS):
                line = await output.readline()
            message: Message = json.loads(line) if line else {"kind": None}
        except TimeoutError:
            seconds = limits.COMPACTION_STALLED_SECONDS
            raise CompactorFailedError(f"the process stood still for {seconds} s") from None
        except ValueError as error:
            raise CompactorFailedError(f"the process sent an invalid message: {error}") from None
        if not line:
            raise CompactorFailedError(f"the process ended with {await process.wait()}")
        yield message
        if message["kind"] in {"done", "failed"}:
            return
