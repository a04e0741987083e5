"""The test process's end of the launcher process, which all brokers of the test process share.

It is started with the first broker and lives until the test process ends, however that ends.
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from broker.testing.limits import MESSAGE_BYTES_MAX, START_SECONDS, STOP_SECONDS


class Launcher:
    """The launcher process.

    Attributes:
        folder: the temporary directory with everything of its brokers.
    """

    def __init__(self) -> None:
        """Start the process; it imports a broker in a fifth of a second."""
        self.folder = Path(tempfile.mkdtemp(prefix="polylog-testing-"))
        self._lock = threading.Lock()
        self._count = 0
        self._pid = os.getpid()
        self._is_ready = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(START_SECONDS)
        with theirs:
            # Nothing of the test process's terminal: Ctrl-C there ends the tests, and they this.
            self._process = subprocess.Popen(  # noqa: S603 - this Python
                [sys.executable, "-m", "broker.testing.process", str(self.folder)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def is_usable(self) -> bool:
        """Whether it is that of this process, and has not ended."""
        return self._pid == os.getpid() and self._process.poll() is None

    def new_folder(self) -> Path:
        """Create a folder for a broker."""
        with self._lock:
            self._count += 1
            folder = self.folder / str(self._count)
        folder.mkdir()
        return folder

    def start(self, asked: dict[str, Any], control: socket.socket, log_fd: int) -> int:
        """Start a broker; return its process id."""
        message = json.dumps({"do": "start", **asked}).encode()
        if len(message) > MESSAGE_BYTES_MAX:  # it would be cut, which ends all brokers
            raise ValueError(f"settings of a broker have {MESSAGE_BYTES_MAX} bytes at most")
        answer = self._ask(message, (control.fileno(), log_fd))
        return int(answer["pid"])

    def wait(self, pid: int) -> int:
        """Wait until a broker has ended; return its exit code, negative for a signal."""
        return int(self._ask(json.dumps({"do": "wait", "pid": pid}).encode())["status"])

    def remove(self, folder: Path) -> None:
        """Remove the folder of a broker, later."""
        with self._lock:
            self._socket.send(json.dumps({"do": "remove", "path": str(folder)}).encode())

    def close(self) -> None:
        """End the process, all its brokers, and their files."""
        if self._pid != os.getpid():
            return
        self._socket.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # it does so itself, if it has started

    def _ask(self, message: bytes, descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        with self._lock:
            if not self._is_ready:
                self._answer()
                self._is_ready = True
            socket.send_fds(self._socket, [message], descriptors)
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        received = self._socket.recv(MESSAGE_BYTES_MAX)
        if not received:
            raise RuntimeError(f"{sys.executable} -m broker.testing.process has ended, see stderr")
        answer: dict[str, Any] = json.loads(received)
        return answer


_LOCK: Final = threading.Lock()
_LAUNCHERS: Final[list[Launcher]] = []


def launcher() -> Launcher:
    """Return the launcher of this process; start it if there is none."""
    with _LOCK:
        if not _LAUNCHERS or not _LAUNCHERS[-1].is_usable:
            _LAUNCHERS[:] = [Launcher()]
            atexit.register(_LAUNCHERS[-1].close)
        return _LAUNCHERS[-1]
