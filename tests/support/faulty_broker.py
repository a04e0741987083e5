"""`broker start` on a disk that fails where and when a test requests it.

    python -m tests.support.faulty_broker CONTROL [FAULT …] -- start …

It installs the recording table of `file_ops`, plans the faults of the command line, and runs the
command in this process: everything else is the broker's own code. A client of the Unix socket
CONTROL sends lines of JSON and gets one for each:

    ["fail", operation, path, errno, after, times, is_hidden]   as `file_ops.fail`; null
    ["recorded"]                                  [[operation, path, result], …] so far

A FAULT is such a "fail". With CONTROL followed by `--all` every operation is recorded, otherwise
only the failed ones. Everything recorded by the end is in CONTROL with `.json` added.
Checkpoints, which a broker writes once a minute, are written several times a second.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from broker._native.kernel import file_ops
from broker.cli import main as broker_command
from broker.model import limits
from tests.support.broker_process import BrokerProcess

Recorded: TypeAlias = list[tuple[str, str, int]]
TIMEOUT_S = 60.0
ALWAYS = 1_000_000_000  # times: more than any test makes calls
CHECKPOINT_SECONDS = 0.2


class FaultyBroker(BrokerProcess):
    """A broker whose file operations can be made to fail."""

    def __init__(
        self, folder: Path, *, settings: Sequence[str] = (), listen: str | None = None
    ) -> None:
        """Store the command; `faults` of the next start and `records_all` may be set before it."""
        super().__init__(folder, settings=settings, listen=listen)
        self.faults: list[list[Any]] = []
        self.records_all = False
        self._control = folder / "control"

    def command(self) -> list[str]:
        """Return the command line, with the faults that are planned from the start."""
        start = super().command()[3:]  # without the interpreter and its module
        own = [str(self._control), *(["--all"] if self.records_all else [])]
        planned = [json.dumps(fault) for fault in self.faults]
        return [sys.executable, "-m", "tests.support.faulty_broker", *own, *planned, "--", *start]

    def fail(
        self,
        operation: str,
        path: str,
        error: int,
        after: int = 0,
        times: int = 1,
        *,
        is_hidden: bool = False,
    ) -> None:
        """Make operations fail from now on; a hidden failure looks like success to the broker."""
        self._ask("fail", operation, path, error, after, times, is_hidden)

    def recorded(self) -> Recorded:
        """Return the operations recorded so far."""
        return [tuple(each) for each in self._ask("recorded")]

    def recorded_by_the_end(self) -> Recorded:
        """Return the operations recorded in the run that has ended."""
        return [tuple(each) for each in json.loads(_ending(self._control).read_text())]

    def _ask(self, *words: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(TIMEOUT_S)
            control.connect(str(self._control))
            with control.makefile("rw") as lines:
                lines.write(json.dumps(words) + "\n")
                lines.flush()
                return json.loads(lines.readline())


def _ending(control: Path) -> Path:
    return control.with_suffix(".json")


# ---- the process ---------------------------------------------------------------------------------


def _recorded() -> Recorded:
    return [(op, path, result) for op, path, _, _, _, result in file_ops.recorded()]


_COMMANDS: dict[str, Callable[..., Any]] = {"fail": file_ops.fail, "recorded": _recorded}


def _serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                name, *arguments = json.loads(line)
                lines.write(json.dumps(_COMMANDS[name](*arguments)) + "\n")
                lines.flush()


def main(arguments: list[str]) -> int:
    """Run the broker's command on the failing disk; return its exit code."""
    own, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    control = Path(own.pop(0))
    records_all = own[:1] == ["--all"]
    limits.CHECKPOINT_SECONDS = CHECKPOINT_SECONDS  # type: ignore[assignment]
    file_ops.start_recording(failures_only=not records_all)
    for fault in own[records_all:]:
        file_ops.fail(*json.loads(fault))
    control.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen()
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        exit_code = broker_command(command)
    file_ops.stop_recording()
    _ending(control).write_text(json.dumps(_recorded()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # the thread waits in accept on a closed socket


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
