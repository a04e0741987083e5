"""A real broker in a process of its own, as a user starts it.

The tests see what a user sees: the command line, what the process prints, its port, its exit code
and the files it leaves. Nothing here imports the package under test.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import HOST, free_port

# Time limits that only a hung broker exceeds; no test waits for them.
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
WAIT_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.005

ADDRESS = re.compile(r"\b(?:127\.0\.0\.1|10(?:\.\d+){3}):(\d+)\b")
COMPLAINT = re.compile(r"\b(?:ERROR|CRITICAL|\w+Warning)\b|Traceback \(most recent call last\)")


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Poll until `condition` holds; the time limit is a failure, never a way to wait."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s} s")
        time.sleep(POLL_INTERVAL_S)


def printed_address(output: str) -> str | None:
    """Return the first address of the banner (design section 4), if it is there yet."""
    found = ADDRESS.search(output)
    return found.group(0) if found else None


def held_port() -> tuple[int, int]:
    """Return a descriptor and a free loopback port that nobody else gets while it is open.

    The socket is bound and does not listen: a process that shares its address can listen there, and
    any request for a free port gets another one, also between two runs of a broker. (Port 0 with
    such an address may be a port that another test holds, since nobody listens there.)
    """
    port = free_port()
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, port))
        return holder.detach(), port


class ExternalBroker:
    """Use a broker that runs elsewhere: it proves the tests and cannot be killed or inspected."""

    is_ours = False

    def __init__(self, address: str) -> None:
        """Keep the address; nothing is started."""
        self.address = address

    def log_lines(self) -> list[str]:
        """Return nothing: its log cannot be read."""
        return []

    def check(self) -> None:
        """Check nothing: its log cannot be read."""


class BrokerProcess:
    """`broker start` as a child process on a free loopback port."""

    is_ours = True

    def __init__(
        self, folder: Path, *, settings: Sequence[str] = (), listen: str | None = None
    ) -> None:
        """Prepare a broker with its data and output under `folder`; `start` starts it.

        Unless it is given a listener, it keeps one port for all of its runs.
        """
        if listen is None:
            holder, port = held_port()
            weakref.finalize(self, os.close, holder)
            listen = f"127.0.0.1:{port}"
        self.data_dir = folder / "data"
        self.settings = tuple(settings)
        self.listen = listen
        self.address = ""
        self.expected_complaints: list[str] = []
        # The interpreter and module, unless another program is to be started.
        self.wrap: Callable[[list[str]], list[str]] = list
        # Without settings, which both prefixes are for.
        self.environment = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("BROKER_", "KAFKA_"))
        }
        self._stdout = folder / "stdout.txt"
        self.error_log = folder / "stderr.txt"
        self._lines_checked = 0
        self._stderr_start = 0  # of the last start
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """Return the command line."""
        options = ["--data-dir", str(self.data_dir), "--listen", self.listen]
        for setting in self.settings:
            options += ["--set", setting]
        return self.wrap([sys.executable, "-m", "broker", "start", *options])

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        self._stdout.write_bytes(b"")
        self._stderr_start = len(self.stderr())
        with self._stdout.open("ab") as stdout, self.error_log.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=self.environment,
            )

    def start(self) -> None:
        """Start the process and wait until all its partitions are ready."""
        self.launch()
        self.wait_started()

    def wait_started(self) -> None:
        """Wait until a process that was launched has all its partitions ready."""
        self._wait_for_address()
        wait_until(self._has_loaded, "broker has loaded its partitions", START_TIMEOUT_S)

    def start_loading(self) -> None:
        """Start the process and wait for the address it prints; partitions may not be ready yet."""
        self.launch()
        self._wait_for_address()

    def _wait_for_address(self) -> None:
        try:
            wait_until(self._has_started, "broker prints its address", START_TIMEOUT_S)
        except AssertionError:
            self.kill()
            raise
        # A restart listens where clients already know it.
        self.address = self.listen = printed_address(self.stdout()) or ""

    def _has_loaded(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"broker exited with {self.process.returncode}: {self.stderr()}")
        log = self.stderr()
        last = max(log.rfind("loading partitions:"), log.rfind("all partitions loaded:"))
        return last < 0 or log.startswith("all", last) or not self.has_begun_to_load()

    def has_begun_to_load(self) -> bool:
        """Whether this start found partitions: it says so before it prints its address."""
        return self.stderr().find("loading partitions:", self._stderr_start) >= 0

    def _has_started(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"broker exited with {self.process.returncode}: {self.stderr()}")
        return printed_address(self.stdout()) is not None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running (or last) process."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """True until the process has ended."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Wait for the process to end by itself and return its exit code."""
        return self.process.wait(STOP_TIMEOUT_S)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill -9: the process gets no chance to write anything more."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """Stop it as an init system does and return the exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("broker did not stop on SIGTERM") from None

    def restart(self) -> None:
        """Start again on the same data directory and port."""
        if self.is_running:
            self.stop()
        self.start()

    def stdout(self) -> str:
        """Return what the last start printed."""
        return self._stdout.read_text(errors="replace")

    def stderr(self) -> str:
        """Return what every start so far logged."""
        return self.error_log.read_text(errors="replace") if self.error_log.exists() else ""

    def log_lines(self) -> list[str]:
        """Return the log's lines, or only those of warnings and above."""
        return self.stderr().splitlines()

    def check(self) -> None:
        """Fail if the broker died or logged an error that the test did not announce."""
        lines = self.log_lines()
        new, self._lines_checked = lines[self._lines_checked :], len(lines)
        complaints = [
            line
            for line in new
            if COMPLAINT.search(line)
            and not any(expected in line for expected in self.expected_complaints)
        ]
        assert not complaints, "broker logged:\n" + "\n".join(new)

    def private_memory(self) -> int:
        """Return the bytes of anonymous memory that are resident."""
        return self._memory("RssAnon")

    def resident_memory(self) -> int:
        """Return the bytes that are resident, mapped files included."""
        return self._memory("VmRSS")

    def peak_memory(self) -> int:
        """Return the peak of the resident bytes since `forget_peak_memory`."""
        return self._memory("VmHWM")

    def forget_peak_memory(self) -> None:
        """Reset the peak to what is resident now (proc_pid_clear_refs(5))."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None, status
        return int(found.group(1)) * 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far, which other processes do not influence."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]  # proc_pid_stat(5)
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        """Return how many descriptors the process holds."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


Broker = BrokerProcess | ExternalBroker


@contextmanager
def spends_at_most(broker: Broker, seconds: float) -> Iterator[None]:
    """Fail if the broker uses more CPU time than this within the block.

    The time of other processes does not count.
    """
    before = broker.cpu_seconds() if isinstance(broker, BrokerProcess) else 0.0
    yield
    if isinstance(broker, BrokerProcess):
        spent = broker.cpu_seconds() - before
        assert spent < seconds, f"the broker has computed for {spent:.2f} s"
