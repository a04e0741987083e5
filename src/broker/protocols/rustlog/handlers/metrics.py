"""MetricsFetch: counters of this protocol's requests and connections; Ping.

Names, kinds and order of the metrics are the original's, whose values are always 0. Here they are
counted, except those that stay 0: nothing is throttled, and retention and compaction are not
counted by protocol.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from broker.core.forwarding import other_leaders
from broker.core.scheduling.steps import in_steps
from broker.core.topics.topic import Topic
from broker.model.errors import RequestError
from broker.model.limits import RUSTLOG_METRICS_SECONDS
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import RefusalError
from broker.protocols.rustlog.forwarding import ends_at
from broker.protocols.rustlog.messages import Metrics, MetricsFetch, Ping, Pong

# Name and help of each, in the original's order; the names that end in _total are counters.
_METRICS: Final = (
    ("messages_produced_total", "Records appended through this protocol"),
    ("messages_fetched_total", "Records given out through this protocol"),
    ("bytes_in_total", "Bytes of the records appended"),
    ("bytes_out_total", "Bytes of the records given out"),
    ("active_connections", "Connections that speak this protocol"),
    ("throttled_consumers_total", "Consumers slowed down"),
    ("slow_consumers_total", "Consumers too slow"),
    ("segments_deleted_total", "Segments deleted by retention"),
    ("bytes_reclaimed_total", "Bytes deleted by retention"),
    ("compaction_runs_total", "Compactions"),
    ("compaction_skipped_segments_total", "Segments that compaction left alone"),
    ("retention_noop_runs_total", "Looks of retention that found nothing"),
    ("checkpoint_corruption_total", "Checkpoints found damaged"),
    ("compaction_segments_rewritten_total", "Segments that compaction wrote anew"),
    ("compaction_records_dropped_total", "Records that compaction dropped"),
    ("compaction_bytes_rewritten_total", "Bytes that compaction wrote anew"),
    ("fetch_latency_ns_p50", "Median time of a fetch"),
    ("fetch_latency_ns_p95", "95th percentile of a fetch"),
    ("fetch_latency_ns_p99", "99th percentile of a fetch"),
    ("produce_latency_ns_p50", "Median time of a produce"),
    ("produce_latency_ns_p95", "95th percentile of a produce"),
    ("produce_latency_ns_p99", "99th percentile of a produce"),
)
_LAGS_PER_STEP: Final = 250  # 1 ms
_LAG: Final = ("consumer_lag", "Offsets a group has not read, of the newest commits")


async def handle(_: MetricsFetch, call: Call) -> Metrics:
    """Return all metrics in Prometheus' text format."""
    counters = call.counters
    values = {
        "messages_produced_total": counters.messages_produced,
        "messages_fetched_total": counters.messages_fetched,
        "bytes_in_total": counters.bytes_in,
        "bytes_out_total": counters.bytes_out,
        "active_connections": counters.active_connections,
        **_latencies("fetch", counters.fetch_percentiles),
        **_latencies("produce", counters.produce_percentiles),
    }
    lines = []
    for name, text in _METRICS:
        lines += _head(name, text)
        lines.append(f"{name} {values.get(name, 0)}")
    lines += _head(*_LAG)
    head = len(lines)
    elsewhere = await _ends_elsewhere(call)
    async for line in in_steps(_lags(call, elsewhere), _LAGS_PER_STEP):
        lines.append(line)
    if len(lines) == head:
        lines.append('consumer_lag{topic="",partition="",group=""} 0')
    return Metrics("\n".join(lines) + "\n")


async def ping(_: Ping, _call: Call) -> Pong:
    """Return Pong."""
    return Pong()


def _head(name: str, text: str) -> list[str]:
    kind = "counter" if name.endswith("_total") else "gauge"
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _latencies(what: str, percentiles: tuple[int, int, int]) -> dict[str, int]:
    names = (f"{what}_latency_ns_{share}" for share in ("p50", "p95", "p99"))
    return dict(zip(names, percentiles, strict=True))


async def _ends_elsewhere(call: Call) -> dict[tuple[str, int], int]:
    """Return the ends of partitions that other brokers lead; the unreachable are left out.

    All brokers are asked at the same time, each for one topic after the other.
    """
    found: dict[tuple[str, int], int] = {}
    if call.broker.links is None:
        return found
    topics: dict[int, list[Topic]] = {}  # by leader
    for name in sorted(call.lags.topics()):
        topic = call.broker.topics.get(name)
        if topic is not None:
            with suppress(RequestError):  # nobody leads one of its partitions
                for leader in await other_leaders(call.session, topic):
                    topics.setdefault(leader, []).append(topic)
    with suppress(TimeoutError):
        async with asyncio.timeout(RUSTLOG_METRICS_SECONDS):
            await asyncio.gather(*(_ask(call, *each, found) for each in topics.items()))
    return found


async def _ask(
    call: Call, leader: int, topics: list[Topic], found: dict[tuple[str, int], int]
) -> None:
    """Add the ends of the partitions that a broker leads, until it does not answer."""
    with suppress(RequestError):
        for topic in topics:
            with suppress(RefusalError):
                ends = await ends_at(call, leader, topic)
                found |= {(topic.name, partition): end for partition, end in ends}


def _lags(call: Call, elsewhere: dict[tuple[str, int], int]) -> Iterator[str]:
    for topic, partition, group, offsets in call.lags.of(call.broker.topics, elsewhere):
        labels = f'topic="{topic}",partition="{partition}",group="{_escaped(group)}"'
        yield f"consumer_lag{{{labels}}} {offsets}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
