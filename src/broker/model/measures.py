"""The values of native counters."""

from typing import TypeAlias

# Counts of the buckets, and the sum in microseconds.
HistogramState: TypeAlias = tuple[tuple[int, ...], int]
# Of the requests of an API: their number by version, and the times total, queue, local, remote.
MeterState: TypeAlias = tuple[
    tuple[int, ...], HistogramState, HistogramState, HistogramState, HistogramState
]
