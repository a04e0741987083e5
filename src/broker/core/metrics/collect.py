"""From metrics to their values: what is read at once, and walks in steps."""

import asyncio
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.cluster.records import NO_LEADER
from broker.core.groups.classic.group import ClassicGroup
from broker.core.groups.consumer.group import ConsumerGroup
from broker.core.metrics import limits
from broker.core.metrics.counters import OTHER, Counters
from broker.core.metrics.group_lags import GroupLags
from broker.core.metrics.text import Number, Sample
from broker.core.metrics.totals import Totals
from broker.core.scheduling.steps import StepBudget, ascending, next_step
from broker.core.transactions.records import TransactionState
from broker.model.clock import monotonic_ns

if TYPE_CHECKING:
    from broker._native.log.partition_log import PartitionLog
    from broker._native.wire.connection import NativeProtocol
    from broker._native.wire.poller import Poller
    from broker.core.broker import Broker
    from broker.core.groups.partition.group_types import Group
    from broker.core.groups.records.offsets import CommittedOffset
    from broker.core.maintenance.disk_space import Space
    from broker.core.topics.topic import Topic

Values: TypeAlias = dict[str, list[Sample]]
_FETCH = 1
_REPLICA_FETCH = 128  # the number of its meter, beside those of APIs (kafka/protocol.pyx)


class Sources(NamedTuple):
    """Where the values are, beside the broker.

    Attributes:
        poller: of all connections.
        protocols: the native sides by name.
        api_names: of Kafka's APIs, by key.
        error_names: of Kafka's error codes.
        clock: how often the wall clock has stepped, and whether it is not believed now.
        queued: how many requests wait for Python.
        disk: the last look at the disk, and its level.
        pools: used bytes and limit by pool.
        process: open descriptors, and bytes of memory.
        version: of the package; reads files.
    """

    poller: "Poller"
    protocols: Mapping[str, "NativeProtocol"]
    api_names: Mapping[int, str]
    error_names: Mapping[int, str]
    clock: Callable[[], tuple[int, bool]]
    queued: Callable[[], int]
    disk: Callable[[], "tuple[str, Space, int]"]
    pools: Callable[[], Mapping[str, tuple[int, int]]]
    process: Callable[[], tuple[int, int]]
    version: Callable[[], str]


class Collector:
    """Reads all values of a broker."""

    def __init__(self, broker: "Broker", counters: Counters, sources: Sources) -> None:
        """Begin the time of the ratios."""
        self._broker = broker
        self._counters = counters
        self._sources = sources
        self._started = broker.clock.wall_ms() / 1000
        self._busy = time.thread_time(), monotonic_ns()
        self._totals = Totals(len(_TOTALS))
        self._lags = GroupLags(broker.metrics.remote_ends)
        self._version = ""  # read for the first page
        self._lock = asyncio.Lock()

    async def collect(self, *, is_all: bool) -> Values:
        """Return the samples of each metric; with `is_all` those of topics and groups, too."""
        async with self._lock:  # one after the other: what a walk has seen is older than the next
            begun_ns = monotonic_ns()
            if not self._version:
                self._version = await self._broker.io_thread.run(self._sources.version)
            values: Values = {}
            self._requests(values)
            self._connections(values)
            self._resources(values)
            await self._partitions(values, is_all=is_all)
            await self._groups(values, is_all=is_all)
            await self._transactions(values)
            put(values, "polylog_metrics_seconds", (monotonic_ns() - begun_ns) / 1e9)
            return values

    # ---- at once --------------------------------------------------------------------------------

    def _requests(self, values: Values) -> None:
        kafka = self._sources.protocols["kafka"]
        errors = {key: Counter(counted) for key, counted in self._counters.errors.items()}
        for key, (versions, native_errors, *times) in kafka.request_meters():
            api_key = _FETCH if key == _REPLICA_FETCH else key
            errors.setdefault(api_key, Counter()).update(native_errors)
            api = self._sources.api_names.get(api_key, str(api_key))
            if key != _REPLICA_FETCH:  # it is counted as a Fetch, too
                for version, count in enumerate(versions):
                    if count:
                        add(values, "polylog_requests_total", (api, str(version)), count)
            if api_key == _FETCH:
                api = "FetchConsumer" if key == _FETCH else "FetchFollower"
            names = ("", "_queue", "_local", "_remote")
            for name, state in zip(names, times, strict=True):
                add(values, f"polylog_request{name}_seconds", (api,), state)
        for key, counted in errors.items():
            for code, count in counted.items():
                error = self._sources.error_names.get(code, str(code))
                labels = self._sources.api_names.get(key, str(key)), error
                add(values, "polylog_request_errors_total", labels, count)
        for name, protocol in self._sources.protocols.items():
            add(values, "polylog_protocol_requests_total", (name,), protocol.requests)
        poller = self._sources.poller
        put(values, "polylog_response_send_seconds", poller.send_times)
        put(values, "polylog_log_sync_seconds", poller.turn.sync_times)
        put(values, "polylog_request_queue_size", self._sources.queued())
        add(values, "polylog_waiting_requests", ("Fetch",), poller.parked)
        add(values, "polylog_waiting_requests", ("Produce",), poller.turn.waiting_writes)
        cpu, now = time.thread_time(), monotonic_ns()
        busy = min((cpu - self._busy[0]) / max((now - self._busy[1]) / 1e9, 1e-3), 1.0)
        self._busy = cpu, now
        put(values, "polylog_loop_busy_ratio", busy)
        put(values, "polylog_handler_idle_ratio", 1.0 - busy)
        put(values, "polylog_loop_cpu_seconds_total", cpu)
        put(values, "polylog_loop_turns_total", poller.polls)

    def _connections(self, values: Values) -> None:
        counters, poller = self._counters, self._sources.poller
        active = Counter(counters.accepted.counts)
        for (listener, _), count in counters.closed.counts.items():
            active[listener,] -= count
        for name, counts in (
            ("polylog_connections", active),
            ("polylog_connections_accepted_total", counters.accepted.counts),
            ("polylog_connections_closed_total", counters.closed.counts),
            ("polylog_connections_refused_total", counters.refused.counts),
            ("polylog_logins_total", counters.logins.counts),
            ("polylog_login_failures_total", counters.login_failures.counts),
            ("polylog_otlp_exports_total", counters.exports.counts),
        ):
            for labels, count in counts.items():
                add(values, name, labels, count)
        for listener, tls in self._broker.metrics.listeners_with_tls().items():
            labels = (listener,)
            add(values, "polylog_certificate_expiry_timestamp_seconds", labels, tls.expires)
            add(values, "polylog_tls_failures_total", labels, tls.failures)
        put(values, "polylog_received_bytes_total", poller.bytes_received)
        put(values, "polylog_sent_bytes_total", poller.bytes_sent)
        put(values, "polylog_throttles_total", poller.rests)
        put(values, "polylog_throttled_seconds_total", poller.rest_ms / 1000)

    def _resources(self, values: Values) -> None:
        path, space, level = self._sources.disk()
        add(values, "polylog_disk_total_bytes", (path,), space.total_bytes)
        add(values, "polylog_disk_free_bytes", (path,), space.free_bytes)
        add(values, "polylog_disk_level", (path,), level)
        for pool, (used, limit) in self._sources.pools().items():
            add(values, "polylog_memory_used_bytes", (pool,), used)
            add(values, "polylog_memory_limit_bytes", (pool,), limit)
        open_fds, resident_bytes = self._sources.process()
        put(values, "polylog_open_fds", open_fds)
        put(values, "polylog_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        put(values, "polylog_resident_memory_bytes", resident_bytes)
        put(values, "polylog_cpu_seconds_total", time.process_time())
        jumps, is_held = self._sources.clock()
        put(values, "polylog_clock_jumps_total", jumps)
        put(values, "polylog_clock_held", int(is_held))
        put(values, "polylog_uptime_seconds", self._broker.clock.wall_ms() / 1000 - self._started)
        put(values, "polylog_start_timestamp_seconds", self._started)
        node_id = str(self._broker.config.integer("node.id"))
        python = ".".join(map(str, sys.version_info[:3]))
        labels = self._version, python, node_id
        add(values, "polylog_build_info", labels, 1)

    # ---- in steps -------------------------------------------------------------------------------

    async def _partitions(self, values: Values, *, is_all: bool) -> None:
        """Walk over all partitions of the cluster."""
        topics, counts = self._broker.topics, Counter[str]()
        budget = StepBudget(limits.PARTITIONS_PER_STEP)
        for name in await ascending(list(topics.names()), limits.NAMES_PER_STEP):
            topic = topics.get(name)
            if topic is None:
                continue
            counts["topics"] += 1
            sums = [0] * len(_TOTALS)
            for number in range(topic.partition_count):
                log: PartitionLog | None = topic.held_log(number)  # type: ignore[assignment]
                self._partition(topic, number, log, counts)
                if log is not None and not log.is_loading:
                    sums = [a + b for a, b in zip(sums, _amounts(log), strict=True)]
                    counts["unsynced"] += log.unsynced_bytes
                    counts["size"] += log.size
                    if is_all:
                        _log_series(values, (name, str(number)), log, counts)
                await budget.spend(1)
            shown = self._totals.look(name, sums)
            if is_all:
                has_series = counts["topics"] <= limits.TOPIC_SERIES_MAX
                _topic_series(values, name if has_series else OTHER, shown)
        if len(self._totals) > counts["topics"]:
            self._totals.keep(topics.names())
        self._put_sums(values, counts)

    def _put_sums(self, values: Values, counts: Counter[str]) -> None:
        without_log = {
            "polylog_failed_writes_total": self._counters.failed_writes,
            "polylog_failed_reads_total": self._counters.failed_reads,
        }
        for name, amount in zip(_TOTALS, self._totals.all, strict=True):
            put(values, name, amount + without_log.get(name, 0))
        for name, key in _PARTITION_GAUGES.items():
            put(values, name, counts[key])
        put(values, "polylog_damaged_logs", len(self._broker.health.damaged()))
        view = self._broker.cluster
        put(values, "polylog_brokers", len(view.brokers("", 0)))
        put(values, "polylog_controller", int(view.controller_id == self._broker.node_id))
        seen = self._broker.metadata.image.seen
        for name, by_leader in (
            ("polylog_leader_elections_total", seen.elections),
            ("polylog_unclean_leader_elections_total", seen.unclean_elections),
            ("polylog_isr_shrinks_total", seen.shrinks),
            ("polylog_isr_expansions_total", seen.expansions),
        ):
            put(values, name, by_leader.get(self._broker.node_id, 0))
        if counts["left out"]:
            add(values, "polylog_metrics_left_out", ("partitions",), counts["left out"])

    def _partition(
        self, topic: "Topic", number: int, log: "PartitionLog | None", counts: Counter[str]
    ) -> None:
        state = self._broker.cluster.leadership(topic, number)
        counts["all"] += 1
        counts["held"] += log is not None
        counts["offline"] += state.leader == NO_LEADER
        counts["offline logs"] += log is not None and log.is_offline
        if state.leader != self._broker.node_id:
            return
        counts["led"] += 1
        in_sync = len(state.isr)
        least = min(topic.config.integer("min.insync.replicas"), state.wanted)
        counts["under replicated"] += in_sync < state.wanted
        counts["under min isr"] += in_sync < least
        counts["at min isr"] += in_sync == least and state.wanted > 1
        if log is not None and log.is_replicated and not (log.is_loading or log.is_offline):
            ends = [max(end, log.log_start_offset) for _, _, end, _ in log.replica_states()]
            lag = log.log_end_offset - min([log.log_end_offset, *ends])
            counts["replica lag"] = max(counts["replica lag"], lag)

    async def _groups(self, values: Values, *, is_all: bool) -> None:
        """Walk over all groups that this broker coordinates."""
        states, counts = Counter[str](), Counter[str]()
        budget = StepBudget(limits.GROUP_OFFSETS_PER_STEP)
        if is_all:
            self._lags.begin()
        for shard in list(self._broker.groups.shards()):
            for group_id, group in list(shard.groups.items()):
                state = group.listing().state
                states[state] += 1
                await budget.spend(_GROUP_WORK)
                counts["groups"] += is_all
                if counts["groups"] > limits.GROUPS_MAX:
                    counts["left out"] += 1
                elif is_all:
                    _group_series(values, group_id, group, state)
                    offsets = shard.offsets.of_group(group_id)
                    await self._offsets(values, group_id, offsets, counts, budget)
        if is_all:
            self._lags.end()
        for state, count in states.items():
            add(values, "polylog_groups", (state,), count)
        for family, key in _LEFT_OUT_OF_GROUPS.items():
            if counts[key]:
                add(values, "polylog_metrics_left_out", (family,), counts[key])

    async def _offsets(
        self,
        values: Values,
        group_id: str,
        offsets: Mapping[str, Mapping[int, "CommittedOffset"]],
        counts: Counter[str],
        budget: StepBudget,
    ) -> None:
        for topic, of_topic in list(offsets.items()):
            for partition, committed in list(of_topic.items()):
                place = group_id, topic, partition
                await budget.spend(self._offset(values, place, committed.offset, counts))

    def _offset(
        self, values: Values, place: tuple[str, str, int], offset: int, counts: Counter[str]
    ) -> int:
        """Add the series of a committed offset; return what that has cost, in offsets."""
        if counts["series"] >= limits.GROUP_SERIES_MAX:
            counts["left out"] += 1
            return 1
        counts["series"] += 1
        group_id, name, partition = place
        labels = group_id, name, str(partition)
        add(values, "polylog_group_offset", labels, offset)
        topic = self._broker.topics.get(name)
        if topic is None:
            return 1  # it is deleted
        lag = self._lags.of(place, topic, offset)
        if lag is None:
            counts["no lag"] += 1
            return 1
        add(values, "polylog_group_lag_records", labels, lag.records)
        ratio = lag.records / lag.kept if lag.kept > 0 else 0.0
        add(values, "polylog_group_lag_ratio", labels, ratio)
        if lag.records == 0:
            add(values, "polylog_group_lag_seconds", labels, 0.0)
            return 1
        if lag.time_ms >= 0:
            seconds = max(self._broker.clock.wall_ms() - lag.time_ms, 0) / 1000
            add(values, "polylog_group_lag_seconds", labels, seconds)
        else:
            counts["no time"] += 1
        return limits.TIME_LOOKUP_WORK

    async def _transactions(self, values: Values) -> None:
        """Walk over the transactional ids that this broker coordinates."""
        now_ms = self._broker.clock.wall_ms()
        count, oldest_ms = 0, now_ms
        for part in self._broker.transactions.listing():
            begun = [each.started_ms for each in part if each.state is TransactionState.ONGOING]
            count += len(begun)
            oldest_ms = min([oldest_ms, *begun])
            await next_step()
        put(values, "polylog_open_transactions", count)
        put(values, "polylog_oldest_transaction_seconds", (now_ms - oldest_ms) / 1000)


_GROUP_WORK = 10  # in offsets
_LEFT_OUT_OF_GROUPS = {"groups": "left out", "lags": "no lag", "time lags": "no time"}
_TOTALS = (
    "polylog_records_in_total",
    "polylog_appended_bytes_total",
    "polylog_read_bytes_total",
    "polylog_copied_bytes_total",
    "polylog_failed_writes_total",
    "polylog_rejected_bytes_total",
    "polylog_failed_reads_total",
)
# Of the same amounts.
_TOPIC_TOTALS = (
    "polylog_topic_records_in_total",
    "polylog_topic_appended_bytes_total",
    "polylog_topic_read_bytes_total",
    None,
    "polylog_topic_failed_writes_total",
    "polylog_topic_rejected_bytes_total",
    "polylog_topic_failed_reads_total",
)
_PARTITION_GAUGES = {
    "polylog_topics": "topics",
    "polylog_cluster_partitions": "all",
    "polylog_partitions": "held",
    "polylog_leaders": "led",
    "polylog_under_replicated_partitions": "under replicated",
    "polylog_under_min_isr_partitions": "under min isr",
    "polylog_at_min_isr_partitions": "at min isr",
    "polylog_replica_lag_records": "replica lag",
    "polylog_offline_partitions": "offline",
    "polylog_offline_logs": "offline logs",
    "polylog_log_unsynced_bytes": "unsynced",
    "polylog_logs_size_bytes": "size",
}


def add(values: Values, name: str, labels: tuple[str, ...], value: object) -> None:
    """Add a series."""
    values.setdefault(name, []).append(Sample(labels, value))  # type: ignore[arg-type]


def put(values: Values, name: str, value: object) -> None:
    """Add the series of a metric without labels."""
    add(values, name, (), value)


def _amounts(log: "PartitionLog") -> tuple[int, ...]:
    """Return what a log has counted, in the order of _TOTALS."""
    return (
        log.records_in,
        log.bytes_in,
        log.bytes_out,
        log.bytes_copied,
        log.failed_writes,
        log.rejected_bytes,
        log.failed_reads,
    )


def _log_series(
    values: Values, labels: tuple[str, str], log: "PartitionLog", counts: Counter[str]
) -> None:
    if counts["series"] >= limits.PARTITION_SERIES_MAX:
        counts["left out"] += 1
        return
    counts["series"] += 1
    add(values, "polylog_log_start_offset", labels, log.log_start_offset)
    add(values, "polylog_log_end_offset", labels, log.log_end_offset)
    add(values, "polylog_log_size_bytes", labels, log.size)
    add(values, "polylog_log_segments", labels, log.segment_count)


def _topic_series(values: Values, shown: str, sums: Iterable[Number]) -> None:
    for name, amount in zip(_TOPIC_TOTALS, sums, strict=True):
        if name is None:
            continue
        found = values.setdefault(name, [])
        others = shown == OTHER and found and found[-1].labels == (OTHER,)
        before = found.pop().value if others else 0
        found.append(Sample((shown,), amount + before))  # type: ignore[operator]


def _group_series(values: Values, group_id: str, group: "Group", state: str) -> None:
    members: Sized
    if isinstance(group, ConsumerGroup):
        members, epoch = group.state.members, group.state.epoch
    elif isinstance(group, ClassicGroup):
        members, epoch = group.members, group.image.generation
    else:
        members, epoch = group.image.members, group.image.generation
    add(values, "polylog_group_members", (group_id,), len(members))
    add(values, "polylog_group_rebalances_total", (group_id,), epoch)
    add(values, "polylog_group_state", (group_id, state), 1)
