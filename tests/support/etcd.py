"""etcd on loopback: one member or several, which a test can kill, stop and start again."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from broker.model.address import Address

PROGRAM = shutil.which("etcd")
REASON = "etcd is not installed (Debian: etcd-server)"


class Etcd:
    """The members of one cluster."""

    def __init__(self, folder: Path, members: int = 1) -> None:
        """Start the members; their data is in `folder`. Skips the test where there is no etcd."""
        if PROGRAM is None:
            pytest.skip(REASON)
        self._folder = folder
        ports = _free_ports(2 * members)
        self.endpoints = [Address("127.0.0.1", port) for port in ports[:members]]
        self._peers = ports[members:]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * members
        try:
            for number in range(members):
                self.start(number)
            for number in range(members):
                self.wait(number)
        except BaseException:
            self.close()
            raise

    def start(self, number: int) -> None:
        """Start a member that does not run."""
        name = f"m{number}"
        client = f"http://{self.endpoints[number]}"
        peer = f"http://127.0.0.1:{self._peers[number]}"
        cluster = ",".join(
            f"m{each}=http://127.0.0.1:{port}" for each, port in enumerate(self._peers)
        )
        (self._folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        log = (self._folder / f"{name}.log").open("ab")
        self._processes[number] = subprocess.Popen(
            [
                str(PROGRAM),
                *("--name", name, "--data-dir", str(self._folder / name)),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", cluster, "--initial-cluster-state", "new"),
                *("--heartbeat-interval", "50", "--election-timeout", "500"),
            ],
            stdout=log,
            stderr=log,
        )
        log.close()

    def wait(self, number: int) -> None:
        """Wait until a member answers; fails after 30 s, with the member's log."""
        address = (self.endpoints[number].host, self.endpoints[number].port)
        for _ in range(600):
            try:
                with socket.create_connection(address, timeout=5) as client:
                    client.sendall(
                        b'POST /v3/kv/range HTTP/1.0\r\nContent-Length: 14\r\n\r\n{"key":"AAAA"}'
                    )
                    if b" 200 " in client.recv(4096):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError((self._folder / f"m{number}.log").read_text()[-4000:])

    def kill(self, number: int) -> None:
        """End a member at once, as a crash does."""
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()
        self._processes[number] = None

    def send(self, number: int, sent: signal.Signals) -> None:
        """Send a member a signal, as SIGSTOP and SIGCONT."""
        process = self._processes[number]
        assert process is not None
        os.kill(process.pid, sent)

    def close(self) -> None:
        """End all members."""
        for number, process in enumerate(self._processes):
            if process is not None:
                self.kill(number)

    time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
