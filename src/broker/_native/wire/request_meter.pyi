from typing import TypeAlias

from broker._native.kernel.histogram import HistogramState

# Requests by version, and the times: total, queue, local, remote.
MeterState: TypeAlias = tuple[
    tuple[int, ...], HistogramState, HistogramState, HistogramState, HistogramState
]

__pyx_capi__: dict[str, object]  # what request_meter.pxd declares
