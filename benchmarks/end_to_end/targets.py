"""The targets of a load: our broker as a process, the floor program, Apache Kafka from its jars."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = (
    20000,
    32000,
)  # below the ephemeral range, where a connect may connect to itself
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
POLL_SECONDS = 0.005

ADDRESS = re.compile(r"\b127\.0\.0\.1:(\d+)\b")
KAFKA_STARTED = re.compile(r"Kafka Server started")

KAFKA_REPLICAS_MAX = 3  # of internal topics, as by default
KAFKA_MEMORY = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={folder}/data
num.network.threads=1
num.io.threads=2
offsets.topic.replication.factor={replicas}
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
log.segment.delete.delay.ms=100
file.delete.delay.ms=100
"""
OURS = "polylog"
BEFORE = "before"  # the broker of another commit


class BenchmarkError(Exception):
    """A program failed, so that a measurement is impossible; the message says how."""


@dataclass
class Target:
    """A running broker."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def pid(self) -> int:
        """The id of the process whose costs are measured."""
        return self.process.pid

    def check(self) -> None:
        """Raise an error if the broker has ended."""
        if self.process.poll() is not None:
            raise BenchmarkError(f"{self.name} ended: {log_tail(self.log)}")

    def stop(self) -> None:
        """Stop it with SIGTERM."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Stop it with SIGKILL."""
        self.process.kill()
        self.process.wait()


def log_tail(log: Path) -> str:
    """Return the last lines of a program's output."""
    lines = log.read_text(errors="replace").splitlines()
    return " / ".join(lines[-2:]) or "no output"


def free_port() -> int:
    """Return a port that nothing listens on now."""
    for port in range(FIRST_PORT, LAST_PORT):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise BenchmarkError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


def launch(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to a file."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def wait_for_line(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str]) -> str:
    """Return the first match in a program's output (its first group if there is one)."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        found = pattern.search(log.read_text(errors="replace"))
        if found:
            return found.group(found.lastindex or 0)
        if process.poll() is not None:
            break
        time.sleep(POLL_SECONDS)
    process.kill()
    process.wait()
    raise BenchmarkError(f"{process.args!r} did not start: {log_tail(log)}")


def polylog_command(folder: Path, port: int, python: str = sys.executable) -> list[str]:
    """Return how our broker is started; durability os is what the floor program does."""
    return [
        *(python, "-m", "broker", "start"),
        *("--data-dir", str(folder), "--listen", f"{HOST}:{port}"),
        *("--set", "polylog.durability=os"),
    ]


def start_polylog(folder: Path, port: int = 0) -> Target:
    """Start our broker and wait for the address that its banner names."""
    return _start_polylog(OURS, folder, polylog_command(folder, port))


def start_before(python: Path, folder: Path) -> Target:
    """Start the broker of another commit, which is installed in the environment of `python`."""
    return _start_polylog(BEFORE, folder, polylog_command(folder, 0, str(python)))


def _start_polylog(name: str, folder: Path, command: Sequence[str]) -> Target:
    log = folder.with_suffix(".log")
    process = launch(command, log)
    return Target(name, process, int(wait_for_line(process, log, ADDRESS)), log)


def start_floor(program: Path, folder: Path, *, recycled: bool) -> Target:
    """Start the floor program and wait for the address that it prints."""
    folder.mkdir()
    log = folder.with_suffix(".log")
    process = launch([str(program), str(folder), *(["--recycle"] if recycled else [])], log)
    return Target("floor", process, int(wait_for_line(process, log, ADDRESS)), log)


def _java(jars: Path, *arguments: str) -> list[str]:
    return ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", f"{jars}/*", *arguments]


def start_kafka(jars: Path, folder: Path, more: str = "") -> Target:
    """Format a KRaft node in an empty folder and start it."""
    [node] = start_kafka_nodes(jars, folder, 1, more)
    return node


def start_kafka_nodes(jars: Path, folder: Path, count: int, more: str = "") -> list[Target]:
    """Format KRaft nodes 1 to `count`, each broker and controller, and start them.

    `more` are lines of their properties, with the names in braces of KAFKA_PROPERTIES.
    """
    folder.mkdir()
    storage_tool = "kafka.tools.StorageTool"
    cluster = subprocess.run(
        _java(jars, storage_tool, "random-uuid"), check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    first = free_port()
    ports = range(first, first + 2 * count, 2)  # the one after each is its controller's
    voters = ",".join(f"{number}@{HOST}:{port + 1}" for number, port in enumerate(ports, 1))
    nodes: list[Target] = []
    for number, port in enumerate(ports, 1):
        data = folder / f"node-{number}"
        data.mkdir()
        properties, log = data / "server.properties", data.with_suffix(".log")
        properties.write_text(
            (KAFKA_PROPERTIES + more).format(
                node_id=number,
                port=port,
                controller_port=port + 1,
                voters=voters,
                replicas=min(count, KAFKA_REPLICAS_MAX),
                folder=data,
            )
        )
        subprocess.run(
            _java(jars, storage_tool, "format", "-t", cluster, "-c", str(properties)),
            check=True,
            capture_output=True,
        )
        command = _java(jars, "kafka.Kafka", str(properties))
        process = launch([command[0], *KAFKA_MEMORY, *command[1:]], log)
        nodes.append(Target(f"kafka {number}" if count > 1 else "kafka", process, port, log))
    for node in nodes:
        wait_for_line(node.process, node.log, KAFKA_STARTED)
    return nodes
