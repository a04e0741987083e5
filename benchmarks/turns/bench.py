"""Measures the longest turn of the event loop for each long request: `make bench SUITE=turns`.

The broker consists of fakes and runs in this process without sockets, so only Python and the codec
are measured. Times are processor time, the minimum of several runs because the machine is shared.
The release of objects and garbage collections are included.

    python -m benchmarks.turns.bench [--markdown]
"""

import argparse
import asyncio
import gc
import sys
from typing import NamedTuple

from tests.support.large_broker import (
    LargeBroker,
    LongRequest,
    Size,
    TurnLoop,
    processor_ns,
    requests,
)

SIZE = Size(
    topics=1_000,
    partitions_per_topic=10,
    groups=9_000,
    members=1_000,
    offsets=10_000,
    producers=10_000,
    transactional_ids=9_000,
    named=10_000,
)
RUNS = 5
CONCURRENT_REQUESTS = 100


class Cost(NamedTuple):
    """The cost of a request, in milliseconds."""

    longest_turn: float
    all_turns: float
    turns: int


def measured(broker: LargeBroker, loop: TurnLoop, request: LongRequest) -> Cost:
    """Return the minimum of several runs, each without cached answers."""
    found = []
    for _ in range(RUNS):
        broker.topics.registry.version += 1
        gc.collect()
        loop.turns.clear()
        answer = loop.run_until_complete(broker.serve(request))
        assert len(answer) > request.answer_bytes_min, request.name
        found.append((max(loop.turns), sum(loop.turns), len(loop.turns)))
    longest, total, turns = (min(each) for each in zip(*found, strict=True))
    return Cost(longest / 1e6, total / 1e6, turns)


def at_once(broker: LargeBroker, loop: TurnLoop, request: LongRequest, count: int) -> Cost:
    """Return the cost of several equal requests at the same time."""

    async def ask() -> None:
        await asyncio.gather(*(broker.serve(request) for _ in range(count)))

    broker.topics.registry.version += 1
    gc.collect()
    loop.turns.clear()
    loop.run_until_complete(ask())
    return Cost(max(loop.turns) / 1e6, sum(loop.turns) / 1e6, len(loop.turns))


def main() -> None:
    """Print a row for each request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="the table of docs/step-costs.md")
    arguments = parser.parse_args()
    row = "| {} | {} | {} | {} |\n" if arguments.markdown else "{:<40} {:>14} {:>14} {:>8}\n"
    loop = TurnLoop(processor_ns)
    broker = LargeBroker(SIZE)
    loop.run_until_complete(broker.fill())
    gc.collect()
    gc.freeze()  # as the server does after loading: these objects are not collected again
    sys.stdout.write(row.format("request", "longest turn, ms", "all turns, ms", "turns"))
    if arguments.markdown:
        sys.stdout.write("|---|---|---|---|\n")
    longest_first = requests(SIZE)
    for request in longest_first:
        cost = measured(broker, loop, request)
        numbers = f"{cost.longest_turn:.2f}", f"{cost.all_turns:.1f}", cost.turns
        sys.stdout.write(row.format(request.name, *numbers))
        sys.stdout.flush()
    [metadata] = [each for each in requests(SIZE) if each.name == "Metadata of all topics"]
    cost = at_once(broker, loop, metadata, CONCURRENT_REQUESTS)
    numbers = f"{cost.longest_turn:.2f}", f"{cost.all_turns:.1f}", cost.turns
    sys.stdout.write(row.format(f"{metadata.name}, {CONCURRENT_REQUESTS} at once", *numbers))
    loop.close()


if __name__ == "__main__":
    main()
