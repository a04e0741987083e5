"""`python -m broker.testing.process`: the launcher, which imports a broker once and forks brokers.

A start costs what it costs after the imports: a tenth of a new process. Requests come as messages
of JSON on the socket that is its standard input; one broker after another is forked for

    {"do": "start", ...}    with two descriptors: the broker's control socket, and its log file
    {"do": "wait", "pid"}   returns the exit status of a broker that is about to end
    {"do": "remove", "path"}    removes a data directory; there is no answer

When the other end is closed, also because the test process was killed, all brokers and files end
with it. The launcher has one thread, so that a fork is safe.
"""

import gc
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from broker.server import app  # noqa: F401 - imported before the first fork
from broker.testing import child
from broker.testing.limits import MESSAGE_BYTES_MAX


def main() -> int:
    """Serve until the test process closes its end."""
    _, folder = sys.argv
    requests = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - its descriptor is what counts
        os.dup2(nothing.fileno(), 0)
    pids: set[int] = set()
    # Forked processes share what exists now.
    gc.collect()
    gc.freeze()
    try:
        requests.send(b"{}")
        while True:
            message, descriptors, *_ = socket.recv_fds(requests, MESSAGE_BYTES_MAX, 2)
            if not message:
                return 0
            _serve(requests, json.loads(message), descriptors, pids)
    except ConnectionError:
        return 0
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _serve(
    requests: socket.socket, message: dict[str, Any], descriptors: list[int], pids: set[int]
) -> None:
    match message["do"]:
        case "start":
            pid = _fork(requests, message, descriptors)
            pids.add(pid)
            answer = {"pid": pid}
        case "wait":
            _, status = os.waitpid(message["pid"], 0)
            pids.discard(message["pid"])
            answer = {"status": os.waitstatus_to_exitcode(status)}
        case _:
            shutil.rmtree(Path(message["path"]), ignore_errors=True)
            return
    requests.send(json.dumps(answer).encode())


def _fork(requests: socket.socket, message: dict[str, Any], descriptors: list[int]) -> int:
    control, log = descriptors
    launcher_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        requests.close()
        child.run(message, control, log, launcher_pid)
    os.close(control)
    os.close(log)
    return pid


if __name__ == "__main__":
    sys.exit(main())
