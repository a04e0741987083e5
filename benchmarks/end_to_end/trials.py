"""One run of a workload against one target, with the costs of all processes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.end_to_end import machine
from benchmarks.end_to_end.background import READY
from benchmarks.end_to_end.rows import GB, Floor, Options, Row
from benchmarks.end_to_end.targets import HOST, BenchmarkError, Target
from broker.codec import encode
from tests.support import quotas
from tests.support.wire_client import WireClient

TRIAL_SECONDS_MAX = 150.0
UNREACHED = 1e12  # of a quota
COMPRESSED_ROW_BYTES = 100
WRONG_EXIT = 1  # of the load generator: offsets are missing, duplicated or misplaced
AMOUNTS = ("bytes", "requests", "seconds")  # options that a quick run makes smaller

Facts = dict[str, float]


@dataclass(frozen=True)
class Programs:
    """The compiled programs of this folder, and Apache Kafka's jars where they are at hand."""

    load: Path
    floor: Path
    kafka_jars: Path | None = None


def run_load(programs: Programs, port: int, command: str, options: Options) -> Facts:
    """Run the load generator once and return its facts, flattened."""
    arguments = [str(programs.load), command, "--host", HOST, "--port", str(port)]
    for name, value in options.items():
        if value is True:
            arguments.append(f"--{name}")
            continue
        values = value if isinstance(value, tuple) else (value,)
        for single in values:
            arguments += [f"--{name}", _text(single)]
    return run_program(arguments)


def run_program(command: list[str]) -> Facts:
    """Run a program that prints one JSON object of facts."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TRIAL_SECONDS_MAX
        )
    except subprocess.TimeoutExpired as timeout:
        raise BenchmarkError(f"no end after {timeout.timeout:.0f} s: {' '.join(command)}") from None
    if done.returncode not in (0, WRONG_EXIT) or not done.stdout:
        ending = done.stderr.strip() or f"exit {done.returncode}"
        raise BenchmarkError(f"{' '.join(command)}: {ending}")
    facts = dict(_flat("", json.loads(done.stdout)))
    facts["wrong"] = float(done.returncode == WRONG_EXIT)
    return facts


def _text(value: float | str) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _flat(prefix: str, facts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield flattened numbers: {"end_to_end_us": {"p50": 1}} as end_to_end_p50_us."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(name.removesuffix("_us"), {f"{key}_us": n for key, n in value.items()})
        elif isinstance(value, int | float):
            yield (f"{prefix}_{name}" if prefix else name), float(value)


def scaled(options: Options, scale: float) -> Options:
    """Return options with their amounts of work scaled."""
    return {
        name: value * scale if name in AMOUNTS and isinstance(value, int | float) else value
        for name, value in options.items()
    }


def _with_batch_file(options: Options, folder: Path) -> Options:
    """Encode a compressed batch for the generator, which cannot compress."""
    if "compression" not in options:
        return options
    sent = dict(options)
    compression, size = str(sent.pop("compression")), int(str(sent.pop("batch-bytes")))
    rows = [
        b'{"user": %d, "path": "/item/%d", "took_ms": %d}' % (row % 97, row * row % 9_973, row % 31)
        for row in range(size // COMPRESSED_ROW_BYTES)
    ]
    [batch] = encode(
        [row.ljust(COMPRESSED_ROW_BYTES) for row in rows],
        timestamp_ms=time.time_ns() // 1_000_000,
        compression=compression,
        batch_bytes_max=2 * size,
    )
    file = folder / f"{compression}-{size}.batch"
    file.write_bytes(batch)
    return {**sent, "batch-file": str(file)}


def _costs(facts: Facts, seconds: Mapping[str, float]) -> Facts:
    """Return processor seconds per GB and per request."""
    costs: Facts = {}
    for who, value in seconds.items():
        costs[f"{who}_s"] = value
        if facts.get("bytes"):
            costs[f"{who}_s_per_gb"] = value / facts["bytes"] * GB
        if facts.get("requests"):
            costs[f"{who}_us_per_request"] = value / facts["requests"] * 1e6
    return costs


@contextmanager
def background_load(row: Row, target: Target) -> Iterator[None]:
    """Run the background load of a row during the context."""
    if row.background is None:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.end_to_end.background", row.background]
    with subprocess.Popen(
        [*command, "--port", str(target.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as load:
        try:
            if load.stdout is None or load.stdout.readline().strip() != READY:
                raise BenchmarkError(f"the load {row.background} did not begin")
            yield
            if load.poll() is not None:
                raise BenchmarkError(f"the load {row.background} has ended")
            load.communicate(timeout=TRIAL_SECONDS_MAX)
        finally:
            load.kill()


@contextmanager
def quotas_of(row: Row, target: Target) -> Iterator[None]:
    """Give every client the quotas of a row during the context."""
    if not row.is_limited:
        yield
        return
    everyone: quotas.Entity = {"client-id": None}
    of_bytes = dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"), UNREACHED)
    with WireClient(f"127.0.0.1:{target.port}") as client:
        quotas.alter(client, everyone, **of_bytes, request_percentage=UNREACHED)
        try:
            yield
        finally:
            removed = dict.fromkeys((*of_bytes, "request_percentage"))
            quotas.alter(client, everyone, **removed)


class Workload:
    """A row that is run in several rounds."""

    def __init__(self, row: Row, programs: Programs, folder: Path, scale: float) -> None:
        """Create a workload; `folder` is for the file of the sync loop, `scale` scales the work."""
        self.row = row
        self._programs = programs
        self._folder = folder
        self._scale = scale
        self._round = 0

    def prepare(self, target: Target) -> None:
        """Create and fill the topic that all rounds read."""
        if self.row.keeps_topic:
            self._create(target, self.row.name)
            self._verify(target, self.row.name)

    def finish(self, target: Target) -> None:
        """Delete the topic of `prepare`."""
        if self.row.keeps_topic:
            self._delete(target, self.row.name)

    def run(self, target: Target) -> Facts:
        """Run once; return facts of the load and costs of the broker, machine and generator."""
        with quotas_of(self.row, target):
            return self._run(target)

    def _run(self, target: Target) -> Facts:
        if target.name == "floor" and self.row.floor is Floor.SYNC_LOOP:
            return self._sync_loop()
        if self.row.keeps_topic:
            return self._measure(target, self.row.name)
        self._round += 1
        topic = f"{self.row.name}-{self._round}"
        self._create(target, topic)
        try:
            return self._measure(target, topic)
        finally:
            self._delete(target, topic)

    def _create(self, target: Target, topic: str) -> None:
        row = self.row
        on_topic: Options = {"topic": topic, "partitions": row.partitions}
        self._load(target, "create", {**on_topic, "config": row.topic_config})
        if row.prepare:
            scale = self._scale if row.keeps_topic else 1.0
            self._load(target, "produce", {**on_topic, **scaled(row.prepare, scale)})

    def _verify(self, target: Target, topic: str) -> None:
        """Read everything once and check every CRC."""
        options: Options = {
            **scaled(self.row.prepare, self._scale),
            "topic": topic,
            "partitions": self.row.partitions,
            "verify": True,
        }
        if self._load(target, "fetch", options)["wrong"]:
            raise BenchmarkError(f"{target.name} has gaps in the records of {topic}")

    def _delete(self, target: Target, topic: str) -> None:
        self._load(target, "delete", {"topic": topic})

    def _load(self, target: Target, command: str, options: Options) -> Facts:
        return run_load(self._programs, target.port, command, options)

    def _measure(self, target: Target, topic: str) -> Facts:
        row = self.row
        options = {
            **_with_batch_file(scaled(row.options, self._scale), self._folder),
            "topic": topic,
            "partitions": row.partitions,
        }
        machine.drain()
        with background_load(row, target), machine.separate_cores(target.pid, pinned=row.pinned):
            machine_before, before = machine.machine_time(), machine.process_seconds(target.pid)
            facts = self._load(target, row.command, options)
            used = machine.process_seconds(target.pid) - before
            held = machine.memory(target.pid)
        machine.drain()
        machine_after = machine.machine_time()
        facts |= _costs(
            facts,
            {
                "cpu": used,
                "machine_cpu": machine_after.busy - machine_before.busy,
                "generator_cpu": facts["generator_cpu_s"],
            },
        )
        facts["stolen_s"] = machine_after.stolen - machine_before.stolen
        facts["requests_per_s"] = facts["requests"] / facts["seconds"]
        facts["mb_per_s"] = facts["bytes"] / facts["seconds"] / 1e6
        facts["rss_anon_mb"], facts["pss_mb"] = held.rss_anon / 1e6, held.pss / 1e6
        return facts

    def _sync_loop(self) -> Facts:
        seconds = scaled(self.row.options, self._scale)["seconds"]
        facts = run_program(
            [str(self._programs.floor), str(self._folder), "--sync-loop", str(seconds)]
        )
        facts["requests_per_s"] = facts["requests"] / facts["seconds"]
        return facts
