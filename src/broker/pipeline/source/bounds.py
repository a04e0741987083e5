"""Bounds that a batch read keeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What records must fulfil; None: anything will do. Offsets and ms, both ends included."""

    min_offset: int | None = None
    max_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    keys: frozenset[bytes] | None = None
