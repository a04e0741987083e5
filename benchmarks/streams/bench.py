"""Streams of events, many in one partition: `make bench SUITE=streams`.

Streams get their first event, with keys in random order; above a number of them, more are only put
into the file, which is all that a broker looks at. Memory is the growth of the process's own pages.
The costs of requests are processor time of the broker; starts are wall time from exec on, because
they wait for the disk, and the median of a few. Costs that are to be compared, of events of streams
that are in memory and of others, are measured in turn, a part of the sample at a time.
"""

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.end_to_end import machine
from benchmarks.end_to_end import sizes as sizes_of
from benchmarks.end_to_end.blocking_client import start, stop
from benchmarks.end_to_end.targets import BenchmarkError, Target
from benchmarks.streams.events import (
    TOPIC,
    Clients,
    Connection,
    append_command,
    first_answer,
    key_of,
)
from broker.protocols.cursus.event_streams.file import FILE_NAME, StreamFile

SIZES = (1_000_000,)
APPENDED_MAX = 1_000_000  # streams of a size: others are put into the file
PART = 20_000  # streams between two looks at the memory
SAMPLE = 20_000  # streams that are asked for
SAMPLE_PART = 1_000  # of them, between a cost and the next
ALONE = 64  # connections with one command at a time
LAST_SHARE = 10  # of the streams: those whose costs are told apart
UNFILED = 18_000  # events of new streams before a kill: they come within the two seconds
LONG = 1_000  # events of the stream that is read
READS = 50
STARTS = 3
SETTINGS = ("polylog.durability=group-commit",)


@dataclass(frozen=True)
class Cost:
    """A row of the table; a goal is that of 1,000,000 streams, or of any number."""

    name: str
    unit: str
    goal: float | None = None


MEMORY = Cost("memory, growth at its peak", "MiB", 64)
FILE = Cost("file of streams", "bytes per stream")
RATE = Cost("first events of new streams", "1/s")
NEW = Cost("first event of a new stream, CPU", "us", 30)
NEW_LAST = Cost("likewise, the last tenth", "us")
NEW_AGAIN = Cost(f"{SAMPLE:,} of them after a start, which reads all keys, CPU", "us")
MEMORY_AGAIN = Cost("memory after that, growth since the start", "MiB", 64)
UNKNOWN = Cost("event of a stream that is not in memory, CPU", "us")
KNOWN = Cost("event of a stream that is, CPU", "us")
UNKNOWN_ALONE = Cost(f"as the first, of {ALONE} connections with one command each", "us")
KNOWN_ALONE = Cost("as the second, likewise", "us")
VERSION = Cost("version of a stream that is not in memory, CPU", "us")
READ = Cost(f"read of {LONG:,} events, CPU", "ms", 2)
STOP = Cost("clean stop", "s")
CLEAN = Cost("first answer after a clean stop", "s", 1)
KILLED = Cost(f"first answer after kill -9, {UNFILED:,} events in no file", "s", 1)
CLEAN_CPU = Cost("CPU of the broker until then, after a clean stop", "s")
KILLED_CPU = Cost("CPU of the broker until then, after kill -9", "s")
COSTS = (
    MEMORY,
    FILE,
    RATE,
    NEW,
    NEW_LAST,
    NEW_AGAIN,
    MEMORY_AGAIN,
    UNKNOWN,
    KNOWN,
    UNKNOWN_ALONE,
    KNOWN_ALONE,
    VERSION,
    READ,
    STOP,
    CLEAN,
    CLEAN_CPU,
    KILLED,
    KILLED_CPU,
)
Measured = dict[Cost, float]


def cpu_of(broker: Target, work: Callable[[], None]) -> float:
    """Return the processor seconds of the broker for something."""
    before = machine.process_seconds(broker.pid)
    work()
    return machine.process_seconds(broker.pid) - before


def cpu_of_commands(broker: Target, clients: Clients, commands: Iterable[str]) -> float:
    """Return the processor seconds of the broker for commands."""
    return cpu_of(broker, lambda: clients.ask_all(commands))


def fill(broker: Target, clients: Clients, count: int) -> Measured:
    """Begin the streams."""
    empty = machine.memory(broker.pid).rss_anon
    since = time.monotonic()
    peak, cpu, cpu_last = 0, 0.0, 0.0
    last = max(count // LAST_SHARE, 1)
    part = min(PART, last)
    for first in range(0, count, part):
        numbers = range(first, min(first + part, count))
        commands = (append_command(number, 1) for number in numbers)
        used = cpu_of_commands(broker, clients, commands)
        cpu += used
        if first >= count - last:
            cpu_last += used
        peak = max(peak, machine.memory(broker.pid).rss_anon - empty)
        if first % (50 * PART) == 0:
            sys.stderr.write(f"  {first:,} streams, {peak >> 20} MiB\n")
    return {
        MEMORY: peak / (1 << 20),
        RATE: count / (time.monotonic() - since),
        NEW: cpu / count * 1e6,
        NEW_LAST: cpu_last / last * 1e6,
    }


def put_into_file(folder: Path, numbers: range) -> None:
    """Add streams to the file of a stopped broker; their events are those of others."""
    file = StreamFile(folder)
    covered = file.covered()
    for first in range(numbers.start, numbers.stop, 10 * PART):
        part = range(first, min(first + 10 * PART, numbers.stop))
        events = {key_of(number).encode(): (0, number % covered.offset) for number in part}
        file.write(events, {}, covered.offset, covered.epoch)
    file.close()


def ask_costs(broker: Target, clients: Clients, count: int) -> Measured:
    """Measure requests for streams all over the file."""
    sample = range(0, count, max(count // SAMPLE, 1))
    found: Measured = {}
    empty = machine.memory(broker.pid).rss_anon
    new = range(count + 1, count + 1 + SAMPLE)
    for cost, commands in (
        (NEW_AGAIN, [append_command(each, 1) for each in new]),
        (VERSION, [f"STREAM_VERSION topic={TOPIC} key={key_of(each + 1)}" for each in sample[:-1]]),
    ):
        found[cost] = cpu_of_commands(broker, clients, commands) / len(commands) * 1e6
    found |= append_costs(broker, clients, sample)
    grown = machine.memory(broker.pid).rss_anon - empty
    return {MEMORY_AGAIN: grown / (1 << 20), **found}


def append_costs(broker: Target, clients: Clients, sample: range) -> Measured:
    """Measure appends to streams that are not in memory, and to the same ones again."""
    found = dict.fromkeys((UNKNOWN, KNOWN, UNKNOWN_ALONE, KNOWN_ALONE), 0.0)
    half = sample[: len(sample) // 2], sample[len(sample) // 2 :]
    with Clients(broker.port, ALONE, 1) as alone:
        for first in range(0, len(half[0]), SAMPLE_PART):
            for who, numbers, unknown, known in (
                (clients, half[0], UNKNOWN, KNOWN),
                (alone, half[1], UNKNOWN_ALONE, KNOWN_ALONE),
            ):
                part = numbers[first : first + SAMPLE_PART]
                for cost, version in ((unknown, 2), (known, 3)):
                    commands = [append_command(each, version) for each in part]
                    found[cost] += cpu_of_commands(broker, who, commands)
    return {cost: used / len(half[0]) * 1e6 for cost, used in found.items()}


def read_cost(broker: Target, clients: Clients, count: int) -> Measured:
    """Measure the read of a long stream."""
    for version in range(2, LONG + 1):
        clients.ask_all([append_command(count, version)])
    connection = Connection(broker.port)
    wanted = f"READ_STREAM topic={TOPIC} key={key_of(count)}"

    def read() -> None:
        for _ in range(READS):
            description = connection.ask(wanted)
            if f'"count":{LONG}'.encode() not in description:
                raise BenchmarkError(description.decode())
            connection.answer()

    used = cpu_of(broker, read)
    connection.close()
    return {READ: used / READS * 1e3}


def starts(folder: Path, count: int) -> Measured:
    """Measure the first answers of new processes."""
    found: dict[Cost, list[float]] = {CLEAN: [], CLEAN_CPU: [], KILLED: [], KILLED_CPU: []}

    def start_and_ask(number: int, wall: Cost, cpu: Cost) -> Target:
        broker, since = start(folder, *SETTINGS)
        found[wall].append(first_answer(broker.port, number, since))
        found[cpu].append(machine.process_seconds(broker.pid))
        return broker

    begun = count + 1 + SAMPLE
    for _ in range(STARTS):
        broker = start_and_ask(1, CLEAN, CLEAN_CPU)
        with Clients(broker.port) as clients:
            clients.ask_all(append_command(number, 1) for number in range(begun, begun + UNFILED))
        begun += UNFILED
        broker.kill()
        stop(start_and_ask(begun - 1, KILLED, KILLED_CPU))
    return {cost: statistics.median(values) for cost, values in found.items()}


def measure(count: int, folder: Path) -> Measured:
    """Measure all costs with a number of streams."""
    appended = min(count, APPENDED_MAX)
    broker, _ = start(folder, *SETTINGS)
    try:
        connection = Connection(broker.port)
        connection.ask(f"CREATE topic={TOPIC} partitions=1 event_sourcing=true")
        connection.close()
        with Clients(broker.port) as clients:
            clients.ask_all([append_command(count, 1)])  # the one that becomes long
            found = fill(broker, clients, appended)
        stop(broker)
        put_into_file(folder / f"{TOPIC}-0", range(appended, count))
        broker, _ = start(folder, *SETTINGS)
        with Clients(broker.port) as clients:
            first_answer(broker.port, count, 0.0)
            found |= ask_costs(broker, clients, count)
            found |= read_cost(broker, clients, count)
        found[STOP] = stop(broker)
        found[FILE] = (folder / f"{TOPIC}-0" / FILE_NAME).stat().st_size / count
        found |= starts(folder, count)
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def table(sizes: Sequence[int], found: Sequence[Measured]) -> tuple[str, bool]:
    """Return the table, and whether all goals are met."""
    lines = [["cost", "unit", *(f"{size:,}" for size in sizes), "goal"]]
    are_all_met = True
    for cost in COSTS:
        values = [each[cost] for each in found]
        cells = [cost.name, cost.unit, *(f"{value:,.3g}" for value in values)]
        if cost.goal is not None:
            is_met = all(value <= cost.goal for value in values)
            are_all_met = are_all_met and is_met
            cells.append(f"{cost.goal:g}{'' if is_met else ' MISSED'}")
        lines.append(cells)
    return sizes_of.aligned(lines), are_all_met


def main(arguments: Sequence[str]) -> int:
    """Measure and print the table; return 1 if a goal was missed."""
    return sizes_of.run(
        arguments,
        name="streams",
        description=__doc__,
        unit="streams",
        sizes=SIZES,
        measure=measure,
        table=table,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
