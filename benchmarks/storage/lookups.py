"""Offset lookups in a segment's index: a million unevenly spaced entries, random offsets.

The floor is one random read from the same amount of memory: a lookup cannot take less.
"""

from array import array
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.storage import loops

ENTRIES = 1_000_000
ENTRY_STEP_BYTES = 4_096
RECORDS_PER_ENTRY_MAX = 200
LOOKUPS_IN_MEMORY = 1_000_000
LOOKUPS_IN_FILE = 20_000
FLOOR = "one random read of 8 MB"


class Lookup(NamedTuple):
    """A kind of lookup, and its goal."""

    name: str
    entries: int
    is_loaded: bool
    goal_ns: float | None = None


LOOKUPS = (
    Lookup("1 M entries, in memory", ENTRIES, is_loaded=True, goal_ns=100),
    Lookup("262,144 entries (1 GiB of log), in memory", 1 << 18, is_loaded=True, goal_ns=100),
    Lookup("1 M entries, in the file", ENTRIES, is_loaded=False),
)


def measure(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the ns per lookup of each round."""
    random = Random(20)
    offsets, reached = array("i"), 0
    for _ in range(ENTRIES):
        reached += random.randint(1, RECORDS_PER_ENTRY_MAX)
        offsets.append(reached)
    costs: dict[str, list[float]] = {}
    for lookup in LOOKUPS:
        place = folder / lookup.name.replace(" ", "-")
        place.mkdir()
        index = loops.Index(str(place))
        index.fill(offsets[: lookup.entries], ENTRY_STEP_BYTES)
        if lookup.is_loaded:
            index.load()
        count = LOOKUPS_IN_MEMORY if lookup.is_loaded else LOOKUPS_IN_FILE
        last = offsets[lookup.entries - 1]
        wanted = array("i", (random.randint(0, last) for _ in range(count)))
        found = (index.look_up(wanted)[0] / count for _ in range(rounds + 1))
        next(found)  # warms up
        costs[lookup.name] = list(found)
    costs[FLOOR] = [
        loops.read_at_random(ENTRIES, LOOKUPS_IN_MEMORY) / LOOKUPS_IN_MEMORY for _ in range(rounds)
    ]
    return costs
