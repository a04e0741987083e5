"""The workloads, their figures and their goals."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from benchmarks.end_to_end.background import ATTACKS, LOADS, OURS
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS

GB = 1_000_000_000

Option = int | float | str | tuple[str, ...]
Options = Mapping[str, Option]  # of the load generator


class Floor(Enum):
    """The target that a workload is compared with."""

    SERVER = "the floor program under the same load"
    SYNC_LOOP = "a bare loop of write and fdatasync"
    NONE = "nothing: no other target has its protocol"


@dataclass(frozen=True)
class Goal:
    """A limit of our figure, or of its ratio to another figure of the same run."""

    limit: float
    over_target: str | None = None  # divided by that target's figure in each round
    over_row: str | None = None  # divided by our own figure on that row
    at_least: bool = False
    when_target: str | None = None  # applies only if that target runs
    unless_target: str | None = None  # applies only if that target does not run

    @property
    def text(self) -> str:
        """The goal as the table shows it."""
        sign = ">=" if self.at_least else "<="
        other = self.over_target or self.over_row
        return f"{sign} {self.limit:g}" + (f"x {other}" if other else "")

    def is_met(self, value: float) -> bool:
        """Return whether a figure, or a ratio if the goal has a divisor, meets the goal."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class Figure:
    """A number of a workload: the name of a fact, its unit, its goals."""

    fact: str
    unit: str
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Row:
    """One workload: a command of the load generator on a topic of its own."""

    name: str
    command: str
    options: Options
    figures: tuple[Figure, ...]
    partitions: int = 8
    topic_config: tuple[str, ...] = ()
    pinned: bool = True  # broker and generator on separate cores, to measure costs
    floor: Floor = Floor.SERVER
    prepare: Options = field(default_factory=dict)  # a produce before the first round
    is_ours: bool = False  # only our broker runs it: it is compared with another row of ours
    keeps_topic: bool = False  # reads only: all rounds use the topic that `prepare` filled
    background: str | None = None  # the load of other clients, see background.py
    is_limited: bool = False  # every client has quotas that it does not reach


def _per_gb(*goals: Goal) -> tuple[Figure, ...]:
    return (Figure("cpu_s_per_gb", "CPU-s/GB", goals),)


def _per_request(limit: float) -> tuple[Figure, ...]:
    return (Figure("cpu_us_per_request", "CPU-us/req", (Goal(limit),)),)


PIPELINED = {"connections": 4, "in-flight": 5}


def _produce_rows() -> list[Row]:
    batches = [
        Row(
            f"produce-{kilobytes}k",
            "produce",
            {**PIPELINED, "batch-bytes": kilobytes << 10, "bytes": 0.6 * GB},
            _per_gb(Goal(1.2, over_target="floor")),
        )
        for kilobytes in (16, 64, 256)
    ]
    single = Row(
        "produce-1rec", "produce", {**PIPELINED, "records": 1, "requests": 300_000}, _per_request(4)
    )
    # Clients of the 0.8 era: the same records as a message set, compared with a batch.
    old = [
        Row(
            f"{row.name}-old",
            "produce",
            {**row.options, "old": True},
            (Figure(fact, unit, (Goal(2, over_row=row.name),)),),
            is_ours=True,
        )
        for row, fact, unit in (
            (single, "cpu_us_per_request", "CPU-us/req"),
            (batches[0], "cpu_s_per_gb", "CPU-s/GB"),
        )
    ]
    unpipelined = [
        Row(
            f"unpipelined-{connections}",
            "produce",
            {"connections": connections, "in-flight": 1, "records": 1, "requests": 60_000},
            _per_request(limit),
        )
        for connections, limit in ((10, 8), (100, 8), (1000, 10))
    ]
    # Records are validated before they are acknowledged, so these are decompressed, as in Kafka.
    compressed = [
        Row(
            f"produce-{compression}",
            "produce",
            {**PIPELINED, "batch-bytes": 64 << 10, "requests": 10_000, "compression": compression},
            (
                Figure(
                    "cpu_us_per_request",
                    "CPU-us/req",
                    (Goal(1, over_target="kafka", when_target="kafka"),),
                ),
            ),
        )
        for compression in ("gzip", "snappy", "lz4", "zstd")
    ]
    return [*batches, *compressed, single, *old, *unpipelined]


def _fetch_rows() -> list[Row]:
    return [
        Row(
            f"fetch-{name}",
            "fetch",
            {"connections": 4, "fetch-bytes": fetch_bytes, "bytes": 2 * GB},
            _per_gb(
                Goal(1.1, over_target="kafka", when_target="kafka"),
                Goal(limit, unless_target="kafka"),
            ),
            prepare={**PIPELINED, "batch-bytes": 16 << 10, "bytes": GB},
            keeps_topic=True,
        )
        for name, fetch_bytes, limit in (("1m", 1 << 20, 0.30), ("64k", 64 << 10, 0.55))
    ]


def _limited_rows() -> list[Row]:
    """Return rows whose clients have quotas: what it costs to count."""
    return [
        replace(
            row,
            name=f"{row.name}-quota",
            figures=(replace(row.figures[0], goals=(Goal(1.05, over_row=row.name),)),),
            is_ours=True,
            is_limited=True,
        )
        for row in (*_produce_rows(), *_fetch_rows())
        if row.name in {"produce-1rec", "produce-16k", "fetch-64k"}
    ]


def _latency_rows() -> list[Row]:
    goal = (Goal(1.4, over_target="floor"),)
    return [
        Row(
            f"latency-{rate}",
            "latency",
            {"rate": rate, "seconds": 4, "warm-up-seconds": 0.5, "spin": True},
            (
                Figure("end_to_end_p50_us", "p50 us", goal),
                Figure("end_to_end_p99_us", "p99 us", goal),
                Figure("end_to_end_p99.9_us", "p99.9 us"),
            ),
            partitions=1,
            pinned=False,
        )
        for rate in (1_000, 10_000)
    ]


QUIET = "quiet"


def _quiet_row(name: str, background: str | None, *goals: Goal, is_ours: bool = False) -> Row:
    return Row(
        name,
        "latency",
        {"rate": 1_000, "seconds": 4, "warm-up-seconds": 0.5},
        (
            Figure("acknowledged_p50_us", "p50 us"),
            Figure("acknowledged_p99_us", "p99 us", goals),
            Figure("acknowledged_p99.9_us", "p99.9 us"),
        ),
        partitions=1,
        pinned=False,
        is_ours=is_ours,
        background=background,
    )


def _quiet_rows() -> list[Row]:
    """Return rows of a topic with 1,000 records a second, beside regular loads and attacks."""
    beside_loads = (
        Goal(3, over_row=QUIET),
        Goal(1, over_target="kafka", when_target="kafka"),
    )
    beside_attacks = Goal(5, over_row=QUIET)
    return [
        _quiet_row(QUIET, None),
        *(
            _quiet_row(f"{QUIET}-{name}", name, *beside_loads, is_ours=name in OURS)
            for name in LOADS
        ),
        *(_quiet_row(f"{QUIET}-{name}", name, beside_attacks, is_ours=True) for name in ATTACKS),
    ]


def _durable_row(name: str, producers: int, partitions: int, *goals: Goal) -> Row:
    acknowledged = (Figure(f"acknowledged_{share}_us", f"{share} us") for share in SHARES)
    return Row(
        name,
        "produce",
        {"connections": producers, "in-flight": 1, "records": 1, "seconds": 2},
        (Figure("requests_per_s", "acked/s", goals), *acknowledged),
        partitions=partitions,
        topic_config=("flush.messages=1",),
        pinned=False,
        floor=Floor.SYNC_LOOP,
        # The first batch of a partition creates its files: a cost of the topic, not of the batch.
        prepare={"connections": 16, "in-flight": 1, "records": 1, "requests": 4 * partitions},
    )


SHARES = ("p50", "p99", "p99.9")


def _durable_rows() -> list[Row]:
    return [
        _durable_row("durable-1", 1, 8, Goal(0.9, over_target="floor", at_least=True)),
        _durable_row("durable-8", 8, 8),
        _durable_row("durable-64", 64, 8, Goal(15, over_row="durable-1", at_least=True)),
        _durable_row("durable-64-on-16", 64, 16),
        _durable_row(
            "durable-64-on-1000",
            64,
            1000,
            Goal(0.5, over_row="durable-64-on-16", at_least=True),
        ),
    ]


def _v1_rows() -> list[Row]:
    """Return rows that repeat one line; CONSUME reads 1,000 records (goal: 0.15 us each)."""
    produce = "V1|1|PRODUCE|@ key:" + "x" * 100
    rows = [
        Row(
            f"v1-produce-{name}",
            "lines",
            {"connections": connections, "in-flight": in_flight, "requests": 60_000}
            | {"line": produce},
            _per_request(12),
            floor=Floor.NONE,
        )
        for name, connections, in_flight in (("10", 10, 1), ("100", 100, 1), ("pipelined", 4, 5))
    ]
    consume = Row(
        "v1-consume-1000",
        "lines",
        {"connections": 1, "in-flight": 1, "requests": 4_000, "line": "V1|1|CONSUME|@ 0 0"},
        _per_request(150),
        partitions=1,
        floor=Floor.NONE,
        prepare={"records": 1_000, "requests": 1, "value-bytes": 20},
    )
    return [*rows, consume]


def _rustlog_rows() -> list[Row]:
    loads = (
        ("unpipelined", {"connections": 10, "in-flight": 1, "records": 1, "requests": 60_000}, 9),
        ("1rec", {**PIPELINED, "records": 1, "requests": 300_000}, 4),
        ("100rec", {**PIPELINED, "records": 100, "requests": 30_000}, 12),
    )
    produce = [
        Row(f"rustlog-{name}", "rustlog", options, _per_request(limit), floor=Floor.NONE)
        for name, options, limit in loads
    ]
    # The largest size of the native path, and the largest that fits into a frame of 10 MiB.
    fetch = [
        Row(
            f"rustlog-fetch-{name}",
            "rustlog-fetch",
            {"connections": 4, "fetch-bytes": fetch_bytes, "bytes": GB},
            _per_gb(),
            partitions=4,
            floor=Floor.NONE,
            prepare={**PIPELINED, "batch-bytes": 16 << 10, "bytes": 0.5 * GB},
            keeps_topic=True,
        )
        for name, fetch_bytes in (("1m", 1 << 20), ("full", 10 << 20))
    ]
    return [*produce, *fetch]


EVENT_TOPIC = (
    f"{EVENT_SOURCING}=true",
    *(f"{name}={value}" for name, value in STREAM_SETTINGS.items()),
    "polylog.durability=group-commit",
)


def _cursus_rows() -> list[Row]:
    """Return rows of PUBLISH, batches, events, CONSUME of 1,000 records, and STREAM."""
    publish = "PUBLISH topic=@ producerId=load key=key message=" + "x" * 100
    loads: tuple[tuple[str, Options, float], ...] = (
        ("publish", {"connections": 10, "requests": 60_000, "line": publish}, 12),
        ("publish-pipelined", {**PIPELINED, "requests": 60_000, "line": publish}, 12),
        ("batch-100", {**PIPELINED, "requests": 30_000, "records": 100}, 40),
    )
    writes = [
        Row(f"cursus-{name}", "cursus", options, _per_request(limit), floor=Floor.NONE)
        for name, options, limit in loads
    ]
    events = Row(
        "cursus-events",
        "cursus-events",
        {"connections": 64, "requests": 100_000, "records": 10, "value-bytes": 100},
        (
            Figure("requests_per_s", "acked/s", (Goal(30_000, at_least=True),)),
            *_per_request(24),
        ),
        partitions=4,
        topic_config=EVENT_TOPIC,
        pinned=False,
        floor=Floor.NONE,
    )
    consume = Row(
        "cursus-consume",
        "cursus",
        {"connections": 1, "requests": 2_000, "line": "CONSUME topic=@ partition=0 offset=0"},
        (*_per_gb(), *_per_request(1_000)),
        partitions=1,
        floor=Floor.NONE,
        prepare={"records": 100, "requests": 10, "value-bytes": 1_000},
    )
    streams = [
        Row(
            f"cursus-stream-{kilobytes}k",
            "cursus-stream",
            {"connections": 4, "bytes": GB},
            _per_gb(Goal(0.6)),
            partitions=4,
            floor=Floor.NONE,
            prepare={**PIPELINED, "batch-bytes": kilobytes << 10, "bytes": 0.5 * GB}
            | {"value-bytes": 1_000},
            keeps_topic=True,
        )
        for kilobytes in (16, 256)
    ]
    return [*writes, events, consume, *streams]


ROWS = (
    *_produce_rows(),
    *_fetch_rows(),
    *_limited_rows(),
    *_latency_rows(),
    *_quiet_rows(),
    *_durable_rows(),
    *_v1_rows(),
    *_rustlog_rows(),
    *_cursus_rows(),
)


@dataclass(frozen=True)
class LifecycleRow:
    """A row with a broker process of its own, see lifecycle.py."""

    name: str
    figures: tuple[Figure, ...]


START = LifecycleRow("start", (Figure("first_reply_s", "s", (Goal(0.15),)),))
IDLE = LifecycleRow(
    "idle",
    (
        Figure("rss_anon_mb", "MB RssAnon", (Goal(30),)),
        Figure("pss_mb", "MB PSS"),
        Figure("rss_anon_kb_per_connection", "KB/conn", (Goal(8),)),
    ),
)
RECOVERY = LifecycleRow(
    "recovery",
    (
        Figure("first_accepted_s", "s to first", (Goal(1.0),)),
        Figure("all_accepted_s", "s to all 8"),
    ),
)
LIFECYCLE_ROWS = (START, IDLE, RECOVERY)
