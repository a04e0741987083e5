from typing import TypeAlias

HistogramState: TypeAlias = tuple[
    tuple[int, ...], int
]  # counts of the buckets, sum in microseconds

__pyx_capi__: dict[str, object]  # what histogram.pxd declares
BOUNDS_US: tuple[int, ...]

def bucket_of(us: int) -> int: ...
