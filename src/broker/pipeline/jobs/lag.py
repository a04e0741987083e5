"""`broker pipeline lag`: the lag of consumer groups by partition.

lag                 high watermark - committed offset, in records
seconds_behind      age of the first record after the committed offset; 0 if there is none
records_per_second  rate of new records over the last window, by their timestamps
share               percentage of the group's lag in the topic
skew                of a group in a topic: its largest lag in a partition divided by the mean
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.client.groups import list_groups
from broker.client.lag import existing, seconds_behind
from broker.client.metadata import Cluster, Partition, Topic
from broker.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from broker.codec.packages import import_optional
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError
from broker.model.report import Report
from broker.pipeline.jobs.rows import PartitionLag
from broker.pipeline.reaching import cluster_of

if TYPE_CHECKING:
    from broker.client.security import SecuritySettings

_BAR_INCHES: Final = 0.3
_BARS_MAX: Final = 200


class _Log(NamedTuple):
    """Offsets and rate of a partition."""

    start: int
    end: int
    records_per_second: float


def lag(
    broker: str,
    *,
    security: "SecuritySettings | None" = None,
    timeout_seconds: float | None = None,
    groups: Sequence[str] = (),
    window_seconds: float = 60.0,
    clock: Clock | None = None,
) -> Report:
    """Return the lag of groups; a row per group and partition.

    Args:
        broker: HOST:PORT, or several separated by commas.
        security: TLS and the login; None: neither.
        timeout_seconds: how long an answer is waited for; None: as long as clients do.
        groups: by name; empty: all that have committed offsets.
        window_seconds: the window of the rate.
        clock: the current time, with which timestamps of records are compared.

    Raises:
        ConfigError: an invalid window, or a group that has committed nothing.
        Unreachable: there is no broker at the address.
        RequestError: an error of the broker.
    """
    if not window_seconds > 0:
        raise ConfigError(f"{window_seconds} seconds, expected a window above 0")
    now_ms = (clock or SystemClock()).wall_ms()
    cluster = cluster_of(broker, security, timeout_seconds)
    topics = cluster.existing_topics()
    committed = {
        group: existing(committed_offsets(cluster, group), topics)
        for group in groups or [each.group for each in list_groups(cluster)]
    }
    empty = [group for group in groups if not committed[group]]
    if empty:
        raise ConfigError(f"{cluster}: no offset is committed by {', '.join(map(repr, empty))}")
    logs = _logs(
        cluster, {key for each in committed.values() for key in each}, now_ms, window_seconds
    )
    rows = [
        row
        for group, offsets in committed.items()
        for row in _rows(cluster, group, offsets, logs, topics, now_ms)
    ]
    totals: dict[str, Any] = {
        "groups": len({row[0] for row in rows}),
        "partitions": len(rows),
        "lag": sum(row[5] for row in rows),
    }
    totals["skew"] = {f"{group} in {topic}": value for group, topic, value in _skews(rows)}
    return Report(PartitionLag._fields, rows, totals)


def _logs(
    cluster: Cluster, partitions: set[Partition], now_ms: int, window_seconds: float
) -> dict[Partition, _Log]:
    since = now_ms - int(window_seconds * 1000)
    starts, recent, ends = (
        list_offsets(cluster, dict.fromkeys(partitions, what)) for what in (EARLIEST, since, LATEST)
    )
    return {
        key: _Log(
            starts[key].offset,
            end.offset,
            0.0
            if recent[key].offset < 0  # no record is that new
            else max(end.offset - recent[key].offset, 0) / window_seconds,
        )
        for key, end in ends.items()
    }


def _rows(
    cluster: Cluster,
    group: str,
    offsets: Mapping[Partition, int],
    logs: Mapping[Partition, _Log],
    topics: Mapping[str, Topic],
    now_ms: int,
) -> Iterator[tuple[Any, ...]]:
    lags = {key: max(logs[key].end - offset, 0) for key, offset in offsets.items()}
    of_topic: dict[str, int] = {}
    for (topic, _), lag_records in lags.items():
        of_topic[topic] = of_topic.get(topic, 0) + lag_records
    for (topic, partition), offset in offsets.items():
        log, lag_records = logs[topic, partition], lags[topic, partition]
        seconds: float | None = 0.0
        if lag_records:
            first = max(offset, log.start)
            seconds = seconds_behind(cluster, topics[topic], partition, first, log.end, now_ms)
        share = 100 * lag_records / of_topic[topic] if of_topic[topic] else 0.0
        rate = round(log.records_per_second, 3)
        yield group, topic, partition, log.end, offset, lag_records, rate, seconds, round(share, 1)


def _skews(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, str, float]]:
    lags: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        lags.setdefault((row[0], row[1]), []).append(row[5])
    for (group, topic), found in lags.items():
        total = sum(found)
        if len(found) > 1 and total:
            yield group, topic, round(max(found) * len(found) / total, 2)


def plotter() -> Any:  # noqa: ANN401 - a module without types here
    """Import matplotlib; raise Unsupported, which names the extra, if it is not installed."""
    return import_optional("matplotlib.figure", "a plot")


def plot(report: Report, file: Path) -> None:
    """Draw the lag of every group and partition as bars, the largest first.

    Raises:
        Unsupported: matplotlib is not installed.
        ConfigError: an unsupported file type, or a folder that does not exist.
    """
    figures = plotter()
    rows = sorted(report.rows, key=lambda row: -row[5])[:_BARS_MAX]
    figure = figures.Figure(figsize=(9, 1.5 + _BAR_INCHES * max(len(rows), 1)), layout="tight")
    axes = figure.subplots()
    names = [f"{row[0]}: {row[1]}-{row[2]}" for row in rows]
    bars = axes.barh(range(len(rows)), [row[5] for row in rows])
    labels = [_bar_text(row) for row in rows]
    axes.bar_label(bars, labels, padding=4)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlabel("lag in records; age of the first one; rate of new records")
    axes.set_title(f"Lag: {report.totals['lag']:,} records in {len(report.rows)} partitions")
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be drawn: {error}") from None


def _bar_text(row: tuple[Any, ...]) -> str:
    age = "" if row[7] is None else f", {row[7]:,.0f} s"
    return f"{row[5]:,}{age}, {row[6]:,.0f}/s"
