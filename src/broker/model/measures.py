"""The values of native counters."""

from typing import TypeAlias

# Counts of the buckets, and the sum in microseconds.
HistogramState: TypeAlias = tuple[tuple[int, ...], int]
# Of the requests of an API: their number by version, that of errors in answers of native paths by
# the error's number, and the times total, queue, local, remote.
MeterState: TypeAlias = tuple[
    tuple[int, ...],
    dict[int, int],
    HistogramState,
    HistogramState,
    HistogramState,
    HistogramState,
]
