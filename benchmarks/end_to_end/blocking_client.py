"""Starts a broker with default settings; a client with one request at a time."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from benchmarks.end_to_end.targets import (
    ADDRESS,
    HOST,
    BenchmarkError,
    Target,
    free_port,
    launch,
    wait_for_line,
)
from broker import codec

TIMEOUT_SECONDS = 300.0


class Client:
    """One blocking connection."""

    def __init__(self, port: int) -> None:
        """Connect; retry until the port is open."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                self.socket = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, api: str, version: int, body: codec.Fields) -> codec.Fields:
        """Send a request and return the body of its response."""
        self.send(codec.request_frame(api, version, body, correlation_id=1))
        return codec.read_response(api, version, self.receive()).body

    def send(self, frames: bytes) -> None:
        """Send requests without waiting for responses."""
        self.socket.sendall(frames)

    def receive(self) -> bytes:
        """Return the next response, without its size."""
        return self._receive(int.from_bytes(self._receive(4)))

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self.socket.recv_into(view)
            if count == 0:
                raise BenchmarkError("the broker closed the connection")
            view = view[count:]
        return bytes(data)


def start(folder: Path, *settings: str) -> tuple[Target, float]:
    """Start a broker; return it and the time of the exec."""
    port, log = free_port(), folder.with_suffix(".log")
    since = time.monotonic()
    command = [sys.executable, "-m", "broker", "start", "--data-dir", str(folder)]
    for setting in settings:
        command += ["--set", setting]
    process = launch([*command, "--listen", f"{HOST}:{port}"], log)
    wait_for_line(process, log, ADDRESS)
    return Target("polylog", process, port, log), since


def stop(broker: Target) -> float:
    """Stop a broker cleanly; return the seconds that it took."""
    since = time.monotonic()
    broker.process.send_signal(signal.SIGTERM)
    try:
        if broker.process.wait(TIMEOUT_SECONDS) != 0:
            broker.check()
    except subprocess.TimeoutExpired:
        broker.kill()
        raise BenchmarkError("the broker does not stop") from None
    return time.monotonic() - since


def check(codes: Iterable[int]) -> None:
    """Raise an error if a request was refused."""
    wrong = [code for code in codes if code]
    if wrong:
        raise BenchmarkError(f"the broker answered error {wrong[0]}")
