"""Rows with a broker process of their own: start, idle memory, recovery."""

import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.end_to_end import machine
from benchmarks.end_to_end.rows import GB, PIPELINED, Options
from benchmarks.end_to_end.targets import (
    HOST,
    BenchmarkError,
    Target,
    free_port,
    launch,
    polylog_command,
    start_polylog,
)
from benchmarks.end_to_end.trials import Facts, Programs, run_load

IDLE_CONNECTIONS = 2000
SETTLE_SECONDS = 1.0
RECOVERY_BYTES = GB
RECOVERY_TOPIC: Options = {"topic": "recovery", "partitions": 8}


def measure_start(programs: Programs, folder: Path) -> Facts:
    """Return the seconds from exec to the first reply, on an empty directory."""
    return _time_to_ready(programs, folder / "start", {})


def measure_idle(programs: Programs, folder: Path) -> Facts:
    """Return the private memory of an idle broker, and that of an idle connection."""
    broker = start_polylog(folder / "idle")
    try:
        time.sleep(SETTLE_SECONDS)
        alone = machine.memory(broker.pid)
        connected = _memory_with_connections(programs, broker)
    finally:
        broker.stop()
        shutil.rmtree(folder / "idle", ignore_errors=True)
    per_connection = (connected.rss_anon - alone.rss_anon) / IDLE_CONNECTIONS
    return {
        "rss_anon_mb": alone.rss_anon / 1e6,
        "pss_mb": alone.pss / 1e6,
        "rss_anon_kb_per_connection": per_connection / 1e3,
        "wrong": 0.0,
    }


def _memory_with_connections(programs: Programs, broker: Target) -> machine.Memory:
    command = [str(programs.load), "idle", "--host", HOST, "--port", str(broker.port)]
    command += ["--connections", str(IDLE_CONNECTIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        try:
            if idle.stdout is None or not idle.stdout.readline():
                raise BenchmarkError(f"{IDLE_CONNECTIONS} connections could not be opened")
            time.sleep(SETTLE_SECONDS)
            return machine.memory(broker.pid)
        finally:
            idle.kill()


def measure_recovery(programs: Programs, folder: Path, scale: float) -> Facts:
    """Return the seconds from exec to the first accepted produce after kill -9."""
    data = folder / "recovery"
    broker = start_polylog(data)
    try:
        run_load(programs, broker.port, "create", RECOVERY_TOPIC)
        load = {**PIPELINED, "batch-bytes": 64 << 10, "bytes": RECOVERY_BYTES * scale}
        stored = run_load(programs, broker.port, "produce", {**RECOVERY_TOPIC, **load})
    finally:
        broker.kill()
    facts = _time_to_ready(programs, data, RECOVERY_TOPIC)
    facts["stored_bytes"], facts["wrong"] = stored["bytes"], stored["wrong"]
    return facts


def _time_to_ready(programs: Programs, data: Path, topic: Options) -> Facts:
    port, log = free_port(), data.with_suffix(".log")
    since = time.monotonic_ns()
    process = launch(polylog_command(data, port), log)
    broker = Target("polylog", process, port, log)
    try:
        return run_load(programs, port, "ready", {"since-ns": since, **topic})
    except BenchmarkError:
        broker.check()
        raise
    finally:
        broker.stop()
        shutil.rmtree(data, ignore_errors=True)
