"""The README's commands for several brokers: a cluster on etcd, workers on one host."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.support.broker_process import held_port, wait_until
from tests.support.etcd import PROGRAM, REASON
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.test_documents import client_snippet, code_blocks, document, run

_SECTION = re.compile(r"^## Several brokers\n(.*?)^## ", re.MULTILINE | re.DOTALL)


@contextmanager
def shell(command: str, folder: Path, **environment: str) -> Iterator[None]:
    """Run a command line as a reader does, and end all that it has started."""
    programs = os.pathsep.join(map(os.path.dirname, (sys.executable, PROGRAM or "/bin/etcd")))
    with (folder / "stderr.txt").open("wb") as stderr:
        started = subprocess.Popen(
            ["/bin/bash", "-c", f"{command}\nwait"],
            cwd=folder,
            env=os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"} | environment,
            start_new_session=True,
            stderr=stderr,
        )
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)


def ports_in_a_row(choices: Random) -> tuple[int, list[int]]:
    """Return a number, and the three free ports that are its digits and one of 1 to 3.

    They are below those that the system chooses for clients: one that connects there before a
    broker listens would be connected to itself.
    """
    while True:
        tens = choices.randrange(1_100, 3_200)
        ports = [10 * tens + each for each in (1, 2, 3)]
        if all(map(_is_free, ports)):
            return tens, ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def brokers_known_at(address: str) -> int:
    """Return how many brokers the one at an address names; 0 if none answers."""
    try:
        with WireClient(address, 10.0) as client:
            body = {"topics": [], "allow_auto_topic_creation": False}
            return len(client.request("Metadata", 12, body)["brokers"])
    except (ConnectionClosedError, OSError):
        return 0


class At:
    """Where the README's snippet finds a broker."""

    def __init__(self, address: str) -> None:
        self.address = address


@pytest.mark.client
@pytest.mark.etcd
@pytest.mark.skipif(PROGRAM is None, reason=REASON)
def test_three_commands_of_the_readme_make_a_cluster_of_three_brokers(
    tmp_path: Path, choices: Random
) -> None:
    [block] = [each for each in code_blocks("README.md", "sh") if "etcd://" in each]
    build, etcd, brokers = re.split(r"\n(?=etcd |for )", block.strip())
    assert build.startswith("make build etcd && export PATH=$PWD/.venv/bin:$PATH")
    (held, client), (held_peer, peer) = held_port(), held_port()
    tens, ports = ports_in_a_row(choices)
    brokers = brokers.replace(":2379", f":{client}").replace(":909$id", f":{tens}$id")
    urls = {"CLIENT": f"http://127.0.0.1:{client}", "PEER": f"http://127.0.0.1:{peer}"}
    environment = {f"ETCD_LISTEN_{kind}_URLS": url for kind, url in urls.items()}
    environment |= {"ETCD_ADVERTISE_CLIENT_URLS": urls["CLIENT"]}
    environment |= {"ETCD_INITIAL_ADVERTISE_PEER_URLS": urls["PEER"]}
    environment |= {"ETCD_INITIAL_CLUSTER": f"default={urls['PEER']}"}

    with shell(f"{etcd}\n{brokers}", tmp_path, **environment):
        addresses = [f"127.0.0.1:{port}" for port in ports]
        wait_until(
            lambda: [brokers_known_at(each) for each in addresses] == [3, 3, 3],
            "each broker knows the three",
        )
        shown = [run(client_snippet(At(each)), tmp_path) for each in addresses]

    os.close(held)
    os.close(held_peer)
    assert shown == ["b'hello'\n"] * 3


@pytest.mark.client
def test_the_readmes_command_for_workers_starts_two_brokers(
    tmp_path: Path, choices: Random
) -> None:
    [section] = _SECTION.findall(document("README.md"))
    [command] = re.findall(r"`(broker start --workers 2)`", section)
    _, [port, _, _] = ports_in_a_row(choices)
    address = f"127.0.0.1:{port}"

    with shell(shlex.join([*shlex.split(command), "--listen", address]) + " &", tmp_path):
        wait_until(lambda: brokers_known_at(address) == 2, "the brokers know each other")
        shown = run(client_snippet(At(address)), tmp_path)

    assert shown == "b'hello'\n"
