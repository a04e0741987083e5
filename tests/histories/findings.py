"""The findings of the checker, and the class of each (the numbers are README.md's)."""

from typing import NamedTuple

CLASS_BY_NAME = {
    "lost acknowledged write": 1,
    "inconsistent offset": 2,
    "duplicate in idempotent session": 3,
    "duplicate of a single send": 3,
    "reordered in one session": 3,
    "producer id issued twice": 3,
    "unseen tail": 4,
    "non-monotonic poll": 5,
    "skipped record": 5,
    "aborted read": 6,
    "refused write was read": 6,
    "dirty read": 6,
    "torn transaction": 7,
    "circular information flow": 8,
    "hanging transaction": 9,
    "zombie not fenced": 10,
    "committed offset went back": 11,
    "committed offset forgotten": 11,
    "committed offset out of nowhere": 11,
    "stuck client": 12,
    "commit ahead of reading": 13,
    "acknowledged before it was durable": 14,
    "corrupt record": 15,
    "topic vanished": 18,
    "deleted topic is back": 18,
    "high watermark went back": 20,
    "record out of nowhere": 25,
    "hole in the log": 25,
    "last value of a key removed": 26,
    "removed key is back": 26,
    "live data removed": 26,
    "log start went back": 26,
    "wrong place": 27,
    "two owners": 28,
    "stale commit accepted": 28,
    "end before an acknowledged write": 29,
}


class Finding(NamedTuple):
    """Something that a log must never do."""

    name: str
    evidence: str

    @property
    def number(self) -> int:
        """Return the class that it belongs to."""
        return CLASS_BY_NAME[self.name]
