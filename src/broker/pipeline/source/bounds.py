"""Bounds of the records of a batch read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Conditions on records; None: no condition. Offsets and ms, both ends inclusive."""

    min_offset: int | None = None
    max_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    keys: frozenset[bytes] | None = None
