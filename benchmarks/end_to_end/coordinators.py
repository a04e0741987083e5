"""The cost of groups and transactions: `make bench SUITE=coordinators`.

One connection sends one request at a time, as with heartbeats and commits. The main figure is the
processor time of the broker's event loop per request. Others are that of the whole process (which
includes the kernel's work for syncs, since internal topics always use group-commit) and the
latency. The floor program, which reads a frame and answers it, is measured alternately with the
same client. After that a group of 1,000 members joins, and 10,000 groups commit.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.end_to_end import machine
from benchmarks.end_to_end.blocking_client import Client, check, start, stop
from benchmarks.end_to_end.members import Members, join_body
from benchmarks.end_to_end.targets import BenchmarkError, Target, start_floor
from broker import codec
from broker.model import limits

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "topic"
PARTITIONS = 100
GROUP = "group"
ROUNDS = 5
REQUESTS = 400  # of each kind and round
MEMBERS = 1_000
GROUPS = limits.GROUPS_MAX - 2  # in addition to the measured one and the large one
PIPELINE = 100  # commits in flight
RETRIABLE = (14, 15, 16)  # while a coordinator is loading
TIMEOUT_S = 120.0
NOW_MS = 1_700_000_000_000
IN_TRANSACTION_PARTITIONS = 10


@dataclass
class Row:
    """A kind of request: its cost for the broker, and its latency for the client."""

    name: str
    ask: Callable[[], None]
    goal_us: float | None = None
    pid: int = 0
    loop_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    waits_us: list[float] = field(default_factory=list)

    def run(self, requests: int) -> None:
        """Measure one round."""
        before, loop_before = machine.process_seconds(self.pid), machine.loop_seconds(self.pid)
        for _ in range(requests):
            since = time.perf_counter()
            self.ask()
            self.waits_us.append((time.perf_counter() - since) * 1e6)
        self.cpu_us.append((machine.process_seconds(self.pid) - before) * 1e6 / requests)
        self.loop_us.append((machine.loop_seconds(self.pid) - loop_before) * 1e6 / requests)

    def cells(self) -> list[str]:
        """Return the row of the table."""
        loop_us, cpu_us = statistics.median(self.loop_us), statistics.median(self.cpu_us)
        waits = statistics.quantiles(self.waits_us, n=100)
        spread = f"{min(self.loop_us):.1f}-{max(self.loop_us):.1f}"
        goal = "" if self.goal_us is None else f"<= {self.goal_us:.0f}"
        is_met = "" if self.goal_us is None else ("yes" if loop_us <= self.goal_us else "NO")
        return [
            *(self.name, f"{loop_us:.1f}", spread, f"{cpu_us:.1f}"),
            *(f"{waits[49]:.0f}", f"{waits[98]:.0f}", goal, is_met),
        ]


class CoordinatorRequests:
    """The requests of a consumer and a producer to their coordinators."""

    def __init__(self, client: Client) -> None:
        """Create a topic, a member of a group and a producer with a transactional id."""
        self._client = client
        topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
        body = {"topics": [topic], "timeout_ms": 60_000}
        check(each["error_code"] for each in client.ask("CreateTopics", 5, body)["topics"])
        for kind, key in ((0, GROUP), (1, GROUP)):
            until_ready(client, "FindCoordinator", 3, {"key": key, "key_type": kind})
        self._member = join(client, GROUP)
        self._producer = self._begin_transactions()
        [self._batch] = codec.encode([(None, b"x" * 100)], timestamp_ms=NOW_MS)

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        check([self._client.ask("Heartbeat", 4, {**self._member})["error_code"]])

    def commit(self, partitions: int) -> None:
        """Commit offsets of several partitions."""
        answer = self._client.ask("OffsetCommit", 8, commit_body(partitions, self._member))
        check(each["error_code"] for each in answer["topics"][0]["partitions"])

    def fetch_offsets(self, partitions: int) -> None:
        """Fetch committed offsets of several partitions."""
        topics = [{"name": TOPIC, "partition_indexes": list(range(partitions))}]
        body = {"groups": [{"group_id": GROUP, "topics": topics}], "require_stable": True}
        answer = self._client.ask("OffsetFetch", 8, body)
        check(each["error_code"] for each in answer["groups"])

    def producer_id(self) -> None:
        """Initialize an idempotent producer."""
        check([self._client.ask("InitProducerId", 4, INIT_BODY)["error_code"]])

    def api_versions(self) -> None:
        """Send ApiVersions, which the floor program answers as well."""
        self._client.ask("ApiVersions", 0, {})

    def transaction(self) -> None:
        """Run a transaction of one record in each of ten partitions (KIP-890, version 2)."""
        producer = self._producer
        records = codec.encode(
            [(None, b"x" * 100)],
            timestamp_ms=NOW_MS,
            producer_id=producer["producer_id"],
            producer_epoch=producer["producer_epoch"],
            base_sequence=0,
            is_transactional=True,
        )[0]
        data = [
            {"index": number, "records": records} for number in range(IN_TRANSACTION_PARTITIONS)
        ]
        body = {
            "transactional_id": GROUP,
            "acks": -1,
            "timeout_ms": 60_000,
            "topic_data": [{"name": TOPIC, "partition_data": data}],
        }
        self._until_done(
            lambda: [
                each["error_code"]
                for each in self._client.ask("Produce", 12, body)["responses"][0][
                    "partition_responses"
                ]
            ]
        )
        end = {"transactional_id": GROUP, "committed": True, **producer}
        ended: codec.Fields = {}

        def ask_end() -> list[int]:
            ended.update(self._client.ask("EndTxn", 5, end))
            return [ended["error_code"]]

        self._until_done(ask_end)
        self._producer = {key: ended[key] for key in ("producer_id", "producer_epoch")}

    def _begin_transactions(self) -> codec.Fields:
        body = {"transactional_id": GROUP, "transaction_timeout_ms": 60_000, **NO_PRODUCER}
        answer = until_ready(self._client, "InitProducerId", 5, body)
        return {key: answer[key] for key in ("producer_id", "producer_epoch")}

    def _until_done(self, ask: Callable[[], list[int]]) -> None:
        # The previous transaction may not have all its markers yet: error 51, or 19 in a Produce.
        while set(codes := ask()) & {51, 19}:
            pass
        check(codes)


NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1}
INIT_BODY = {"transactional_id": None, "transaction_timeout_ms": 60_000, **NO_PRODUCER}


def until_ready(client: Client, api: str, version: int, body: codec.Fields) -> codec.Fields:
    """Repeat a request until the coordinator is loaded; return the response."""
    deadline = time.monotonic() + TIMEOUT_S
    while (answer := client.ask(api, version, body))["error_code"] in RETRIABLE:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{api}: error {answer['error_code']} for {TIMEOUT_S:.0f} s")
        time.sleep(0.01)
    check([answer["error_code"]])
    return answer


def join(client: Client, group: str) -> codec.Fields:
    """Join a group as its only member; return the fields that identify the member."""
    answer = until_ready(client, "JoinGroup", 3, join_body(group))
    member = {
        "group_id": group,
        "generation_id": answer["generation_id"],
        "member_id": answer["member_id"],
    }
    assignments = [{"member_id": answer["member_id"], "assignment": b""}]
    check([client.ask("SyncGroup", 3, {**member, "assignments": assignments})["error_code"]])
    return member


def commit_body(partitions: int, member: codec.Fields) -> codec.Fields:
    """Return the body of an OffsetCommit of a member."""
    offsets = [
        {"partition_index": number, "committed_offset": 7, "committed_metadata": ""}
        for number in range(partitions)
    ]
    return {
        "group_id": member["group_id"],
        "generation_id_or_member_epoch": member["generation_id"],
        "member_id": member["member_id"],
        "topics": [{"name": TOPIC, "partitions": offsets}],
    }


# ---- one request at a time -----------------------------------------------------------------------


def rows_of(
    requests_of_client: CoordinatorRequests,
    broker: Target,
    floor: Callable[[], None],
    floor_pid: int,
) -> list[Row]:
    """Return the rows of the first table."""
    rows = [
        Row("floor: a frame and its answer", floor, pid=floor_pid),
        Row("ApiVersions", requests_of_client.api_versions),
        Row("Heartbeat", requests_of_client.heartbeat, 12),
        Row("OffsetCommit, 1 partition", partial(requests_of_client.commit, 1), 30),
        Row("OffsetCommit, 100 partitions", partial(requests_of_client.commit, 100)),
        Row("OffsetFetch, 1 partition", partial(requests_of_client.fetch_offsets, 1)),
        Row("OffsetFetch, 100 partitions", partial(requests_of_client.fetch_offsets, 100)),
        Row("InitProducerId", requests_of_client.producer_id),
        Row("transaction, 10 records, 10 partitions", requests_of_client.transaction),
    ]
    for row in rows[1:]:
        row.pid = broker.pid
    return rows


# ---- many members and groups ---------------------------------------------------------------------


@contextmanager
def many(port: int, count: int) -> Iterator[list[Client]]:
    """Open connections for the duration of the context."""
    clients = [Client(port) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def form_group(broker: Target, members: int) -> str:
    """Let members join a group until all have an assignment; return the costs as text."""
    with many(broker.port, members) as clients:
        before, since = machine.process_seconds(broker.pid), time.monotonic()
        group = Members("large", clients)
        group.join()
        seconds = time.monotonic() - since
        cpu = machine.process_seconds(broker.pid) - before
    traffic = group.traffic
    return (
        f"a group of {members:,} joins until all have an assignment: {seconds:.2f} s,"
        f" {cpu:.2f} s CPU of the broker; per member {traffic.requests / members:.1f} requests,"
        f" {traffic.bytes_sent / members:,.0f} bytes in,"
        f" {traffic.bytes_received / members:,.0f} bytes out"
    )


def commit_in_groups(client: Client, broker: Target, groups: int) -> str:
    """Let groups commit one partition each, pipelined; return the costs as text."""
    frames = [
        codec.request_frame(
            "OffsetCommit",
            8,
            commit_body(1, {"group_id": f"small-{number}", "generation_id": -1, "member_id": ""}),
            correlation_id=number,
        )
        for number in range(groups)
    ]
    client.ask("OffsetFetch", 8, {"groups": [{"group_id": "small-0", "topics": None}]})
    before, since = machine.process_seconds(broker.pid), time.monotonic()
    waiting = frames
    while waiting:
        refused = []
        for first in range(0, len(waiting), PIPELINE):
            part = waiting[first : first + PIPELINE]
            client.send(b"".join(part))
            for frame in part:
                answer = codec.read_response("OffsetCommit", 8, client.receive()).body
                [code] = [each["error_code"] for each in answer["topics"][0]["partitions"]]
                if code in RETRIABLE:
                    refused.append(frame)  # its coordinator is loading
                else:
                    check([code])
        waiting = refused
    seconds = time.monotonic() - since
    cpu = machine.process_seconds(broker.pid) - before
    return (
        f"{groups:,} groups commit one partition each: {seconds:.2f} s,"
        f" {cpu * 1e6 / groups:.0f} us CPU of the broker for each"
    )


def restart(broker: Target, folder: Path, group: str) -> tuple[Target, str]:
    """Restart the broker; return it and the time until a group is served again."""
    stop(broker)
    broker, since = start(folder, *SETTINGS)
    with Client(broker.port) as client:
        body = {"groups": [{"group_id": group, "topics": None}], "require_stable": False}
        while client.ask("OffsetFetch", 8, body)["groups"][0]["error_code"] in RETRIABLE:
            time.sleep(0.005)
    seconds = time.monotonic() - since
    return broker, f"start with these groups until the last one answers: {seconds:.2f} s"


SETTINGS = (
    "polylog.durability=os",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="make bench SUITE=coordinators", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--groups", type=int, default=GROUPS)
    options = parser.parse_args(arguments)
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-coordinators-", dir=ROOT / "build"))
    broker, _ = start(folder / "data", *SETTINGS)
    floor = start_floor(ROOT / "build" / "bench" / "floor", folder / "floor", recycled=False)
    try:
        with Client(broker.port) as client, Client(floor.port) as floor_client:
            ask_floor = partial(floor_client.ask, "ApiVersions", 0, {})
            requests_of_client = CoordinatorRequests(client)
            rows = rows_of(requests_of_client, broker, lambda: void(ask_floor()), floor.pid)
            for number in range(options.rounds):
                for row in rows:
                    row.run(REQUESTS if "transaction" not in row.name else REQUESTS // 10)
                sys.stderr.write(f"round {number + 1} of {options.rounds}\n")
            lines = [form_group(broker, options.members)]
            lines.append(commit_in_groups(client, broker, options.groups))
        broker, line = restart(broker, folder / "data", "small-0")
        lines.append(line)
    finally:
        floor.kill()
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(table(rows) + "\n\n" + "\n".join(lines) + f"\n\n{machine.describe()}\n")
    return 0 if all(cells[-1] != "NO" for cells in map(Row.cells, rows)) else 1


def void(_: object) -> None:
    """Discard a result."""


def table(rows: Sequence[Row]) -> str:
    """Return the table of single requests."""
    head = ["request", "loop us", "least-greatest", "process us", "p50 us", "p99 us"]
    head += ["goal", "met"]
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
    ]
    return "\n".join(line.rstrip() for line in text)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BenchmarkError, subprocess.SubprocessError) as error:
        sys.exit(f"bench-coordinators: {error}")
