"""Makes the pages of metrics from the parts of the process."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker._native.wire.connection import NativeProtocol
from broker._native.wire.poller import Poller
from broker.codec import schema
from broker.core.broker import Broker
from broker.core.metrics.collect import Collector, Sources
from broker.core.metrics.counters import Counters
from broker.core.metrics.pages import Pages
from broker.model import limits
from broker.model.errors import ErrorCode
from broker.model.guarded_clock import GuardedClock
from broker.server.disk_watch import DiskWatch
from broker.server.requests import Requests

_DESCRIPTORS: Final = Path("/proc/self/fd")


def _version() -> str:
    from broker import __version__  # noqa: PLC0415 - a start has no time for it

    return __version__


def _process() -> tuple[int, int]:
    """Return how many descriptors are open, and the bytes of memory that the process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    # Linux counts them from 6.2 on. Listing them takes longer with each connection.
    descriptors = _DESCRIPTORS.stat().st_size or len(os.listdir(_DESCRIPTORS)) - 1  # noqa: PTH208 (only counted)
    return descriptors, pages * resource.getpagesize()


def make_pages(
    broker: Broker,
    disk_watch: DiskWatch,
    clock: GuardedClock,
    poller: Poller,
    protocols: Mapping[str, NativeProtocol],
    requests: Requests,
) -> Counters:
    """Give a broker its pages; return its counters."""

    def pools() -> Mapping[str, tuple[int, int]]:
        groups = sum(size for _, size in (each.memory_usage for each in broker.groups.shards()))
        return {
            "input": (poller.input_bytes, poller.input_bytes_max),
            "replies": (poller.reply_memory_bytes, limits.REPLY_MEMORY_BYTES_MAX),
            "groups": (groups, broker.groups.memory_bytes_max),
        }

    sources = Sources(
        poller,
        protocols,
        schema.API_KEYS,
        {code.number: code.name for code in ErrorCode},
        lambda: (clock.step_count, clock.is_held),
        lambda: requests.queued,
        lambda: disk_watch.state,
        pools,
        _process,
        _version,
    )
    measured = broker.metrics
    measured.pages = Pages(Collector(broker, measured.counters, sources))
    return measured.counters
