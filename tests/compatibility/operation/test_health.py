"""A real broker, as probes, a service manager and a watching person see it."""

import http.client
import json
import re
import select
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.ports import HOST, free_port

LOW_PART = 0.15  # of the disk: core/maintenance/disk_space.py

# Starts a broker whose loop hangs for a time, two seconds after it was made.
STALLING = """
import sys, threading, time
from broker.server import loop

class Stalling(loop.Loop):
    def __init__(self):
        super().__init__()
        hang = lambda: self.call_soon_threadsafe(hangs_on_purpose)
        threading.Timer(2, hang).start()

def hangs_on_purpose():
    time.sleep(3)

from broker.server import app
app.Loop = Stalling
from broker.cli import main
sys.exit(main(sys.argv[1:]))
"""


def get(broker: BrokerProcess, path: str) -> tuple[int, bytes]:
    host, _, port = broker.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health/live", "live"),
        ("/health/ready", "ready"),
        ("/health/startup", "started"),
        ("/health/cluster", "healthy"),
    ],
)
def test_a_broker_that_has_started_is_well(started: BrokerProcess, path: str, status: str) -> None:
    code, body = get(started, path)
    found = json.loads(body)
    if path == "/health/cluster":  # the disk is this machine's
        total, _, free = shutil.disk_usage(started.data_dir)
        is_low = free < LOW_PART * total
        reasons = [each["reason"] for each in found.get("reasons", ())]
        if is_low and reasons and all(each.startswith("disk_") for each in reasons):
            pytest.skip("the disk of this machine is nearly full")
    assert (code, found) == (200, {"status": status})


class Manager:
    """A service manager that reads what a broker tells it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    def close(self) -> None:
        self._socket.close()

    def read(self) -> None:
        while select.select([self._socket], [], [], 0)[0]:
            self.told += self._socket.recv(4096).decode().splitlines()

    def has(self, pattern: str) -> bool:
        self.read()
        return any(re.fullmatch(pattern, line) for line in self.told)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_manager_is_told_of_the_start_the_watchdog_and_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    manager = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.path))
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    settings = [f"polylog.workers={workers}"]
    broker = BrokerProcess(tmp_path, settings=settings, listen=f"{HOST}:{free_port(workers + 1)}")
    try:
        broker.launch()
        wait_until(lambda: manager.has("READY=1"), "the broker is ready")
        count = manager.told.count("WATCHDOG=1")
        wait_until(
            lambda: manager.has(".*") and manager.told.count("WATCHDOG=1") > count + 5,
            "the watchdog hears of it",
        )
        assert manager.told.count("READY=1") == 1
        if workers == 1:
            assert manager.has(r"EXTEND_TIMEOUT_USEC=\d+")
            status = r"STATUS=ready: partitions=\d+ connections=\d+ disk=[A-Z_]+ free_mib=\d+"
            assert manager.has(status)
        assert not manager.has("STOPPING=1")
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(30) == 0
        assert manager.has("STOPPING=1")
    finally:
        broker.kill()
        manager.close()


def test_the_stacks_of_a_loop_that_hangs_are_written_once(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, settings=["polylog.stall.seconds=1"])
    broker.wrap = lambda command: [sys.executable, "-c", STALLING, *command[3:]]
    broker.expected_complaints.append("the loop has stalled")
    try:
        broker.start()
        wait_until(lambda: "the loop has stalled" in broker.stderr(), "the stall is over")
        text = broker.stderr()
        assert text.count("Timeout (") == 1
        assert "in hangs_on_purpose" in text
        assert text.index("hangs_on_purpose") < text.index("the loop has stalled")
        assert get(broker, "/health/live")[0] == 200
    finally:
        broker.kill()


@pytest.mark.parametrize("workers", [1, 2])
def test_every_line_of_a_log_of_json_is_an_object_with_an_event(
    tmp_path: Path, workers: int
) -> None:
    settings = ["polylog.log.format=json", f"polylog.workers={workers}"]
    broker = BrokerProcess(tmp_path, settings=settings, listen=f"{HOST}:{free_port(workers + 1)}")
    broker.start()
    assert broker.stop() == 0
    lines = [json.loads(line) for line in broker.log_lines()]

    assert "new_data_directory" in {each["event"] for each in lines}
    for each in lines:
        assert {"ts", "level", "event", "logger", "message", "fields"} <= each.keys()
        assert ("process" in each) == (workers > 1)
