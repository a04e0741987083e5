"""A compactor process that fails before it could report (core/maintenance/compactor_process)."""

import asyncio
from typing import Any

import pytest

from broker.core.maintenance.compactor_process import CompactorFailedError, compacting


class ClosedPipe:
    """The stdin of an ended process; what a write raises depends on the event loop."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.is_closed = False

    def write(self, _: bytes) -> None:
        raise self._error

    def close(self) -> None:
        self.is_closed = True


class EndedProcess:
    """A process that ended as soon as it began."""

    def __init__(self, error: Exception) -> None:
        self.stdin = ClosedPipe(error)
        self.stdout = asyncio.StreamReader()
        self.returncode = 1

    async def wait(self) -> int:
        return self.returncode


class NoJob:
    def _asdict(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    "error",
    [RuntimeError("the transport is closed"), BrokenPipeError("no reader")],  # uvloop's, asyncio's
)
def test_a_compactor_that_exits_before_it_has_its_job_has_failed(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def run() -> EndedProcess:
        process = EndedProcess(error)

        async def start(*_: object, **__: object) -> Any:
            return process

        monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
        job: Any = NoJob()
        with pytest.raises(CompactorFailedError, match=f"ended at its start: {error}"):
            async with compacting(job):
                pytest.fail("there is nothing to hear of it")
        return process

    assert asyncio.run(run()).stdin.is_closed
