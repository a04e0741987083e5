"""One target, and mutations of what libFuzzer has found, without counting edges: many more inputs.

    python -m tests.fuzz.blind TARGET SECONDS SEED CURRENT FOLDER...

libFuzzer and the counting of Python's edges take more time than most targets do. Once there is
nothing new to find, as many inputs as possible are worth more. The process may crash: the input at
hand is in the file CURRENT, after its size.
"""

import faulthandler
import logging
import mmap
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.mutations import quickly_mutated
from tests.fuzz.targets import load

SIZE_BYTES = 4
CURRENT_BYTES = 1 << 16
BATCH = 500
CHEAP_TIMES = 10
BATCH_SECONDS_MAX = 60  # on a busy machine


def main() -> None:
    """Try inputs until the time is over; print how many they were."""
    name, seconds, seed, current, *folders = sys.argv[1:]
    logging.disable(logging.CRITICAL)  # a line for each failed login
    target = load(name)
    forget_imports()
    inputs = [path.read_bytes() for folder in folders for path in sorted(Path(folder).iterdir())]
    inputs = more_of_cheap_ones(target, inputs)
    random = Random(int(seed))
    ends = time.monotonic() + int(seconds)
    count = 0
    with open(current, "w+b") as file:  # noqa: PTH123 - it is mapped
        file.truncate(CURRENT_BYTES)
        shown = mmap.mmap(file.fileno(), CURRENT_BYTES)
        while time.monotonic() < ends:
            faulthandler.dump_traceback_later(BATCH_SECONDS_MAX, exit=True)
            try_some(target, inputs, random, shown)
            count += BATCH
    faulthandler.cancel_dump_traceback_later()
    print(f"stat::number_of_executed_units: {count}")


def more_of_cheap_ones(target: Callable[[bytes], None], inputs: list[bytes]) -> list[bytes]:
    """Return the inputs, several times each unless it takes longer than most."""
    costs = []
    for each in inputs * 2:  # the first time something may be made for all
        begun = time.process_time_ns()
        target(each)
        costs.append(time.process_time_ns() - begun)
    costs = costs[len(inputs) :]
    usual = sorted(costs)[len(costs) // 2]
    return [
        each
        for each, cost in zip(inputs, costs, strict=True)
        for _ in range(CHEAP_TIMES if cost < 2 * usual else 1)
    ]


def forget_imports() -> None:
    """Let the edges that imports have taken not count."""
    for file in Path(os.environ["BROKER_FUZZ_EDGES"]).iterdir():
        with file.open("r+b") as edges:
            edges.write(bytes(file.stat().st_size))


def try_some(
    target: Callable[[bytes], None], inputs: list[bytes], random: Random, shown: mmap.mmap
) -> None:
    """Try a batch of mutated inputs; whatever is raised is a finding."""
    for _ in range(BATCH):
        data = quickly_mutated(random, inputs)
        size = len(data)
        shown[: SIZE_BYTES + size] = size.to_bytes(SIZE_BYTES, "big") + data
        try:
            target(data)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
            traceback.print_exc()
            sys.stderr.flush()
            os.abort()


def read_current(current: Path) -> bytes:
    """Return the input at hand when the process ended."""
    found = current.read_bytes()
    end = SIZE_BYTES + int.from_bytes(found[:SIZE_BYTES], "big")
    return found[SIZE_BYTES:end]


if __name__ == "__main__":
    main()
