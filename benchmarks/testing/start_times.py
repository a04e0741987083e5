"""Start times and memory of broker.testing, of `broker start`, and of Apache Kafka on a JVM.

    KAFKA_LIBS=DIR python benchmarks/testing/start_times.py [ROUNDS]

All are measured in turn, in each round; the medians are printed as rows of docs/testing.md. A
broker is ready when it answers ApiVersions. Memory is the proportional set size of its process,
right after that; processor time, too, is that of its process, and hardly depends on the load of the
machine. Without KAFKA_LIBS, a folder with Kafka's jars, its row is left out.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from broker import codec
from broker.testing import Broker

ROUNDS = 5
TIMEOUT_S = 120.0
REQUEST = codec.request_frame("ApiVersions", 0, {}, correlation_id=1)
# Heap and stack of Kafka's own start script, and its classes.
JVM = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-cp", "{libs}/*")
Row = tuple[float, float, float]  # milliseconds until it is ready, of a processor, MiB


def main() -> int:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    libs = os.environ.get("KAFKA_LIBS")
    measured: dict[str, list[Row]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            _add(measured, "`broker start`", lambda: _started(_our_command(Path(folder))))
            _ours(measured)
            if libs is not None:
                _add(measured, "Apache Kafka", lambda: _kafka(libs, Path(folder)))
    print("| | ready after, ms | processor time, ms | memory, MiB |\n|---|---|---|---|")
    for name, rows in measured.items():
        ready, used, memory = (median(each) for each in zip(*rows, strict=True))
        print(f"| {name} | {ready:,.0f} | {used:,.0f} | {memory:,.0f} |")
    return 0


def _add(measured: dict[str, list[Row]], name: str, measure: Callable[[], Row]) -> None:
    measured.setdefault(name, []).append(measure())


def _ours(measured: dict[str, list[Row]]) -> None:
    from broker.testing import launcher  # noqa: PLC0415 - only its process is new in each round

    for each in launcher._LAUNCHERS:  # noqa: SLF001
        each.close()
    broker = Broker()
    _add(measured, "`Broker()`, the first of a test run", lambda: _timed(broker, broker.start))
    with Broker() as other:
        other.kill()
        _add(measured, "`Broker()`, each other one", lambda: _timed(other, other.start))
    broker.reset()
    time.sleep(0.5)  # as long as a test
    _add(measured, "`Broker.reset()`", lambda: _timed(broker, broker.reset))
    broker.close()


def _timed(broker: Broker, start: Callable[[], None]) -> Row:
    begun = time.monotonic()
    start()
    _await_ready(int(broker.bootstrap_servers.partition(":")[2]))
    return (time.monotonic() - begun) * 1000, *_used(broker.pid or 0)


def _started(command: list[str], port: int | None = None) -> Row:
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        if port is None:
            found = re.search(rb":(\d+)", process.stdout.readline())
            assert found is not None
            port = int(found.group(1))
        _await_ready(port)
        return (time.monotonic() - begun) * 1000, *_used(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _our_command(folder: Path) -> list[str]:
    options = ["--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0"]
    return [sys.executable, "-m", "broker", "start", *options]


def _kafka(libs: str, folder: Path) -> Row:
    ports = [_free_port(), _free_port()]
    data = folder / "kafka"
    settings = folder / "server.properties"
    settings.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[1]}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}\n"
        f"log.dirs={data}\noffsets.topic.replication.factor=1\n"
    )
    java = ["java", *(each.format(libs=libs) for each in JVM)]
    format_ = ["format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(settings)]
    subprocess.run([*java, "kafka.tools.StorageTool", *format_], check=True, capture_output=True)
    try:
        return _started([*java, "kafka.Kafka", str(settings)], ports[0])
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _await_ready(port: int) -> None:
    ends = time.monotonic() + TIMEOUT_S
    while time.monotonic() < ends:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(REQUEST)
                if client.recv(4):
                    return
        except OSError:
            time.sleep(0.002)
    raise TimeoutError(f"nothing answers at port {port}")


def _used(pid: int) -> tuple[float, float]:
    """Return the processor time of a process in ms, of all its threads, and its memory in MiB."""
    threads = Path("/proc", str(pid), "task").glob("*/schedstat")
    used_ns = sum(int(each.read_text(encoding="utf-8").split()[0]) for each in threads)
    text = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="utf-8")
    found = re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)
    assert found is not None
    return used_ns / 1e6, int(found.group(1)) / 1024


def _free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
