"""Messages to a service manager: which socket, which lines, and for whom."""

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server.service_manager import ServiceManager, of_environment


@pytest.fixture(params=["file", "abstract"])
def listening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[socket.socket, str]]:
    path = str(tmp_path / "notify")
    name = f"@polylog-test-{secrets.token_hex(8)}" if request.param == "abstract" else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0"))
        listening.settimeout(10)
        yield listening, name


def test_a_message_is_one_datagram_of_lines(listening: tuple[socket.socket, str]) -> None:
    receiving, name = listening
    ServiceManager(name, None).tell("READY=1", "STATUS=ready")
    assert receiving.recv(1000) == b"READY=1\nSTATUS=ready"


def test_a_manager_that_is_gone_or_does_not_read_is_not_waited_for(
    listening: tuple[socket.socket, str],
) -> None:
    receiving, name = listening
    manager = ServiceManager(name, None)
    for _ in range(10_000):
        manager.tell("STATUS=ready")
    receiving.close()
    manager.tell("STATUS=ready")


@pytest.mark.parametrize(
    ("environment", "watchdog_seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_that_it_names(
    environment: dict[str, str], watchdog_seconds: float | None
) -> None:
    manager = of_environment({"NOTIFY_SOCKET": "/nowhere", **environment}, pid=7)
    assert manager is not None
    assert manager.watchdog_seconds == watchdog_seconds


@pytest.mark.parametrize("address", [None, "", "vsock:2:1234", "relative"])
def test_without_a_socket_of_this_host_there_is_no_manager(address: str | None) -> None:
    environment = {} if address is None else {"NOTIFY_SOCKET": address}
    assert of_environment(environment) is None


def test_child_processes_are_not_told_of_the_manager() -> None:
    environment = {
        "NOTIFY_SOCKET": "/nowhere",
        "WATCHDOG_USEC": "1",
        "WATCHDOG_PID": str(os.getpid()),
        "OTHER": "stays",
    }
    of_environment(environment)
    assert environment == {"OTHER": "stays"}
