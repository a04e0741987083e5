"""The supervisor with real processes, whose work is that of a test."""

import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.model.address import Address
from broker.model.config import Config, load
from broker.server.workers import supervisor
from broker.server.workers.policy import EXIT_FAILED
from broker.server.workers.supervisor import Work
from broker.server.workers.worker import Worker
from broker.storage.log_dir import LogDir

WORKERS = 3


def configuration(path: Path) -> Config:
    options = [f"log.dirs={path}", "listeners=127.0.0.1:0", f"polylog.workers={WORKERS}"]
    return load(options, {}, None)


def prepare(_log_dir: LogDir, _node_ids: Sequence[int]) -> int:
    return 0


def announce(_shared: Sequence[Address], _own: dict[int, Address]) -> None:
    pass


def children() -> list[int]:
    return [
        int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ]


def test_workers_that_all_fail_at_the_same_moment_end_the_supervisor_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others = {*children()}
    poll = select.poll

    class AfterAllHaveEnded:
        """Polls once all processes of the supervisor have ended."""

        def __init__(self) -> None:
            self._poll = poll()
            self.register = self._poll.register

        def poll(self, milliseconds: float | None) -> list[tuple[int, int]]:
            for pid in {*children()} - others:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return self._poll.poll(milliseconds)

    def fail(_config: Config, _log_dir: LogDir, _worker: Worker) -> int:
        return 73

    monkeypatch.setattr(select, "poll", AfterAllHaveEnded)

    assert supervisor.run(configuration(tmp_path), Work(prepare, fail, announce)) == 73

    stopped = [each.message for each in caplog.records if "all workers are stopped" in each.message]
    assert stopped == ["all workers are stopped: worker 1 has not started"]


def test_a_worker_that_a_signal_without_a_name_has_ended_is_one_that_has_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    number = signal.SIGRTMIN + 5

    def end(_config: Config, _log_dir: LogDir, _worker: Worker) -> int:
        os.kill(os.getpid(), number)
        return 0

    assert supervisor.run(configuration(tmp_path), Work(prepare, end, announce)) == EXIT_FAILED

    assert any(f"by=signal {number}" in each.getMessage() for each in caplog.records)
