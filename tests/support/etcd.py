"""etcd on loopback: one member or several, which a test can kill, stop and start again."""

import base64
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.model.address import Address
from tests.support.broker_process import held_port

# `make test` puts it beside Python's programs.
PROGRAM = shutil.which("etcd") or shutil.which("etcd", path=str(Path(sys.executable).parent))
REASON = "etcd is not installed (Debian: etcd-server)"
# A linearizable read: an answer to it, also a refusal, means that there is a leader.
_READ = b'POST /v3/kv/range HTTP/1.0\r\nContent-Length: 14\r\n\r\n{"key":"AAAA"}'


class Etcd:
    """The members of one cluster."""

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        *,
        options: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        """Start the members; their data is in `folder`. Skips the test where there is no etcd.

        With `tls`, a context for their clients, `options` names their certificates. `host` is where
        clients find them.
        """
        if PROGRAM is None:
            pytest.skip(REASON)
        self._folder = folder
        self._options = options
        self._tls = tls
        self._held, ports = zip(*(held_port() for _ in range(2 * members)), strict=True)
        self.endpoints = [Address(host, port) for port in ports[:members]]
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

    @property
    def pids(self) -> list[int]:
        """The processes of the members that run."""
        return [process.pid for process in self._processes if process is not None]

    def start(self, number: int) -> None:
        """Start a member that does not run."""
        name = f"m{number}"
        client = f"{'https' if self._tls else 'http'}://{self.endpoints[number]}"
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
                *self._options,
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
                with socket.create_connection(address, timeout=5) as plain:
                    host = address[0]
                    wrap = self._tls.wrap_socket if self._tls else None
                    with wrap(plain, server_hostname=host) if wrap else plain as client:
                        client.sendall(_READ)
                        answer = client.recv(4096)
                    if b" 200 " in answer or b"user name is empty" in answer:
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError((self._folder / f"m{number}.log").read_text()[-4000:])

    def ask(self, path: str, number: int = 0, token: str = "", **body: Any) -> dict[str, Any]:
        """Send a member a request of the JSON gateway, without TLS, and return its answer.

        It has 30 s: where a gateway of the broker gives up, a busy machine may only be slow.
        """
        status, found = self._answer(path, number, body, token)
        assert status == 200, found
        return found

    def _answer(
        self, path: str, number: int, body: dict[str, Any], token: str = ""
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(str(self.endpoints[number]), timeout=30)
        headers = {"Authorization": token} if token else {}
        with closing(connection):
            connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            found: dict[str, Any] = json.load(answer)
        return answer.status, found

    def enable_passwords(self) -> None:
        """Ask for passwords from now on: that of `root`, who may do everything, is `secret`.

        etcd hashes each password for as long as many requests take together.
        """
        self.ask("auth/user/add", name="root", password="secret")
        self.ask("auth/user/grant", user="root", role="root")
        self.ask("auth/enable")

    def disable_passwords(self) -> None:
        """Ask for passwords no longer, and remove `root`."""
        token = self.ask("auth/authenticate", name="root", password="secret")["token"]
        self.ask("auth/disable", token=token)
        self.ask("auth/user/delete", name="root")

    def entries(self, prefix: str) -> dict[str, bytes]:
        """Return the keys and values below a prefix."""
        found = self.ask("kv/range", key=_text(prefix), range_end=_text(prefix + "\x7f"))
        return {
            base64.b64decode(each["key"]).decode(): base64.b64decode(each.get("value", ""))
            for each in found.get("kvs", ())
        }

    def put(self, key: str, value: bytes) -> None:
        """Write a key."""
        self.ask("kv/put", key=_text(key), value=base64.b64encode(value).decode())

    def has_put(self, key: str, value: bytes) -> bool:
        """Write a key; False when there is no space."""
        body = {"key": _text(key), "value": base64.b64encode(value).decode()}
        status, found = self._answer("kv/put", 0, body)
        assert status == 200 or "space exceeded" in str(found), found
        return status == 200

    def delete(self, key: str) -> None:
        """Delete a key."""
        self.ask("kv/deleterange", key=_text(key))

    def delete_below(self, prefix: str) -> None:
        """Delete all keys below a prefix, in one change."""
        self.ask("kv/deleterange", key=_text(prefix), range_end=_text(prefix + "\x7f"))

    def kill(self, number: int) -> None:
        """End a member at once, as a crash does."""
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()
        self._processes[number] = None

    def copy(self, number: int, copy: Path) -> None:
        """Copy the data of a member that does not run, as a backup does."""
        shutil.copytree(self._folder / f"m{number}", copy)

    def replace(self, number: int, copy: Path | None) -> None:
        """Give a member that does not run the data of a copy, or none."""
        shutil.rmtree(self._folder / f"m{number}")
        if copy is not None:
            shutil.copytree(copy, self._folder / f"m{number}")

    def send(self, number: int, sent: signal.Signals) -> None:
        """Send a member a signal, as SIGSTOP and SIGCONT."""
        process = self._processes[number]
        assert process is not None
        os.kill(process.pid, sent)

    def close(self) -> None:
        """End all members and remove their data, which is 128 MiB or more; their logs stay."""
        for number, process in enumerate(self._processes):
            if process is not None:
                self.kill(number)
            shutil.rmtree(self._folder / f"m{number}", ignore_errors=True)
        for each in self._held:
            os.close(each)


def _text(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
