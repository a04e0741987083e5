"""A load whose workers are in a program of another language, which writes the history to stdout.

A line is an operation of the history without its time: JSON of `process`, `f`, `type` and `value`.
A line `finish` on stdin stops the sender; when all of its records are acknowledged the program
writes the line `finished`. The end of stdin stops the others. An error that the library does not
retry ends the program with another code than 0.
"""

import fcntl
import json
import os
import select
import subprocess
import termios
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from tests.cluster.loads.client_load import Load
from tests.compatibility.faults.loads.load import Worker
from tests.histories.history import Recorder
from tests.support.broker_process import wait_until

READ_BYTES = 1 << 16
END_TIMEOUT_S = 60
ERROR_BYTES = 4_000


class Program(Worker):
    """The thread that reads what the program writes."""

    def __init__(self, name: str, command: Sequence[str], address: str, history: Recorder) -> None:
        super().__init__(name, address, history)
        self.finished = threading.Event()
        self._command = command
        self._recorder = history
        self._process: subprocess.Popen[str] | None = None
        self._errors = ""
        self._reading = threading.Lock()
        self._read_bytes = 0
        self._done_bytes = 0  # of which all lines are recorded
        self._errors_thread = threading.Thread(target=self._keep_errors, daemon=True)

    def start(self) -> None:
        """Start the program, and the thread."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._errors_thread.start()
        super().start()

    def live(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        with process:
            self._follow(process.stdout)
            code = process.wait(END_TIMEOUT_S)
            self._errors_thread.join(END_TIMEOUT_S)
        self._stopping.set()
        self.finished.set()  # nobody needs to wait any more
        assert code == 0, f"{self.name} exited with {code}: {self._errors}"

    def _follow(self, output: IO[str]) -> None:
        for line in self._lines(output.fileno()):
            if line == b"finished":
                self.finished.set()
            else:
                operation = json.loads(line)
                self._recorder.write(
                    operation["process"], operation["f"], operation["type"], **operation["value"]
                )

    def _lines(self, output: int) -> Iterator[bytes]:
        """Yield what the program writes, and count it."""
        rest = b""
        while True:
            select.select([output], [], [])
            with self._reading:
                data = os.read(output, READ_BYTES)
                self._read_bytes += len(data)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
            self._done_bytes = self._read_bytes - len(rest)

    def catch_up(self) -> None:
        """Wait until everything is recorded that the program has written by now."""
        process = self._process
        if process is None or process.stdout is None or process.stdout.closed:
            return
        with self._reading:
            waiting = array("i", [0])
            fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, waiting)
            end = self._read_bytes + waiting[0]
        # The last line may be written only in part, and is completed at once.
        wait_until(lambda: self._done_bytes >= end or self.is_stopping, f"{self.name} is recorded")

    def say(self, line: str | None) -> None:
        """Write a line to the program, or the end if there is none."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        try:
            if line is None:
                process.stdin.close()
            else:
                process.stdin.write(line)
                process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and `live` says how

    def ask_to_stop(self) -> None:
        """End its stdin; `live` reads until it has ended."""
        self.say(None)

    def stop(self) -> None:
        """Stop, wait, and raise what went wrong."""
        try:
            self.ask_to_stop()
            super().stop()
        finally:
            if self._process is not None:
                self._process.kill()

    def _keep_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-ERROR_BYTES:]


class SenderOf(Worker):
    """The sender of a program."""

    def __init__(self, program: Program, history: Recorder) -> None:
        super().__init__(f"{program.name}-sender", program.address, history)
        self._program = program

    def live(self) -> None:
        """Wait: the program works."""
        self._program.finished.wait()
        self._stopping.set()

    def ask_to_stop(self) -> None:
        """Ask the program to send nothing more."""
        self._program.say("finish\n")

    def stop(self) -> None:
        """Wait until everything is acknowledged, and raise why the program has ended before."""
        super().stop()
        if self._program.is_stopping:
            self._program.stop()


def load(
    address: str,
    history: Recorder,
    *,
    name: str,
    command: Callable[..., Sequence[str]],
) -> Load:
    """Return the workers; `command` returns a command line given the arguments of the program."""
    line = command(address, name)
    program = Program(name, line, address, history)
    roles = ["sender", "reader-1", "reader-2", "copier"]
    names = [f"{name}-{each}" for each in roles]
    return Load([SenderOf(program, history)], [program], names, copies=True, name_of=plain_name_of)


def plain_name_of(value: bytes | None) -> str | None:
    """Return the name of a record, which is its value."""
    return None if value is None else value.decode(errors="replace")
