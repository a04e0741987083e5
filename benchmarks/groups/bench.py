"""Groups: the duration of loads and rebalances, and of the longest turn of the event loop.

    python -m benchmarks.groups.bench

Times are processor time. A turn is one command or one tick of the coordinator, without the cost of
an event loop and sockets. Goals: 10,000 groups, or one of 1,000 members, are loaded within a
second; no turn takes more than 5 ms; a join to a large group costs as much as to a small one.
"""

import gc
import sys
import time
from asyncio import AbstractEventLoop, Future, new_event_loop
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TypeVar

from benchmarks.groups.memory_log import MemoryLog
from broker.codec import encode, records
from broker.codec.coordinator_records import encode_assignment, encode_subscription
from broker.core.coordination.partitions import Environment
from broker.core.groups.commands.classic import (
    GroupProtocol,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    SyncRequest,
)
from broker.core.groups.commands.offsets import CommitRequest, FetchOffsetsRequest, OffsetToCommit
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.groups.settings import GroupSettings
from broker.model.errors import ErrorCode
from broker.model.limits import BATCH_BYTES_MAX
from broker.server.garbage_collection import CollectorPause
from tests.support.fakes import FakeTopics
from tests.support.manual_clock import ManualClock

ResultT = TypeVar("ResultT")

PARTITIONS = 50
SUBSCRIPTION = encode_subscription(
    1, {"topics": ["orders"], "user_data": None, "owned_partitions": []}
)
ASSIGNMENT = encode_assignment(
    1, {"assigned_partitions": [{"topic": "orders", "partitions": [0, 1]}], "user_data": None}
)
OFFSETS_PER_GROUP = 4
DAY_MS = 86_400_000


class Bench:
    """A coordinator over logs in memory, and the times of its turns."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Create a coordinator with empty logs."""
        self.clock = ManualClock()
        self.logs = [MemoryLog() for _ in range(PARTITIONS)]
        self.loop = loop
        self.turns: list[float] = []
        self.coordinator = self.start()

    def start(self) -> GroupCoordinator:
        """Return a new coordinator over the existing logs."""
        ids = count()
        return GroupCoordinator(
            Environment(
                lambda number: self.logs[number],
                self.loop.create_future,
                self.clock,
                lambda _: None,
            ),
            topics=FakeTopics(),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            partition_count=PARTITIONS,
            fresh_id=lambda: f"{next(ids):036}",
        )

    def turn(self, work: Callable[[], ResultT]) -> ResultT:
        """Run the work of one turn and record its time."""
        start = time.process_time_ns()
        result = work()
        self.turns.append((time.process_time_ns() - start) / 1e6)
        return result

    def tick_until(self, is_done: Callable[[], bool]) -> None:
        """Run ticks until a condition is met."""
        while not is_done():
            self.turn(self.coordinator.tick)

    def tick_until_idle(self) -> None:
        """Run ticks until the next one is due later than now."""
        while self.turn(self.coordinator.tick) <= self.clock.monotonic_ms():
            pass

    def report(self, what: str, units: int) -> None:
        """Print the times since the last report."""
        total = sum(self.turns)
        sys.stdout.write(
            f"{what:<44} {total:9.1f} ms  {1000 * total / units:8.1f} us each  "
            f"{len(self.turns):6} turns, longest {max(self.turns):6.2f} ms\n"
        )
        self.turns.clear()

    def compact(self) -> None:
        """Keep the newest record of each key, as the cleaner does."""
        for number, log in enumerate(self.logs):
            kept = self.logs[number] = MemoryLog()
            newest = {each.key: each.value for each in records(log.everything())}
            for key, value in newest.items():
                [batch] = encode([(key, value)], batch_bytes_max=BATCH_BYTES_MAX)
                kept.append_internal(batch)

    # ---- commands --------------------------------------------------------------------------------

    def join(self, group: str, member: str = "", client: str = "client") -> Future[JoinResponse]:
        """Send a join request."""
        protocols = (GroupProtocol("range", SUBSCRIPTION), GroupProtocol("sticky", SUBSCRIPTION))
        return self.coordinator.join_group(
            JoinRequest(
                group, member, None, client, "/127.0.0.1", 45_000, 300_000, "consumer", protocols
            )
        )

    def become_stable(self, group: str, count: int) -> list[str]:
        """Fill a group with members: one alone, then the others together."""
        leader = self.join(group).result().member_id
        self.coordinator.sync_group(SyncRequest(group, leader, None, 1))
        joining: list[Future[JoinResponse]] = []
        for number in range(count - 1):
            client = f"c{number}"
            joining.append(self.turn(partial(self.join, group, "", client)))
        joining.append(self.turn(partial(self.join, group, leader)))
        self.tick_until(lambda: all(each.done() for each in joining))
        joined = [each.result() for each in joining]
        assert {each.error for each in joined} == {ErrorCode.NONE}
        generation = joined[0].generation
        members = [each.member_id for each in joined]
        synced = []
        for member in members:
            assignments = dict.fromkeys(members, ASSIGNMENT) if member == leader else {}
            request = SyncRequest(group, member, None, generation, assignments)
            synced.append(self.turn(partial(self.coordinator.sync_group, request)))
        self.tick_until(lambda: all(each.done() for each in synced))
        return members


def load(bench: Bench, what: str, units: int) -> None:
    """Measure the load of all logs by a new coordinator."""
    bench.turns.clear()
    gc.collect()
    collector_pause = CollectorPause()  # as the server does
    collector_pause.begin()
    bench.coordinator = bench.start()
    for number, log in enumerate(bench.logs):
        bench.coordinator.recovered(number, is_empty=log.log_end_offset == 0)
    bench.tick_until_idle()
    bench.report(what, units)
    collector_pause.end()


def large_group(bench: Bench, count: int) -> None:
    """Measure join, sync, heartbeats and load of a group with many members."""
    bench.turns.clear()
    members = bench.become_stable("large", count)
    bench.report(f"{count} members join and sync", count)
    for member in members:
        request = HeartbeatRequest("large", member, None, 2)
        bench.turn(partial(bench.coordinator.heartbeat, request))
    bench.report(f"heartbeats of {count} members", count)
    load(bench, f"load a group of {count} members", count)


def many_groups(bench: Bench, count: int) -> None:
    """Measure commits, fetches, load and expiry of many groups with one member."""
    for number in range(count):
        group = f"group-{number}"
        bench.become_stable(group, 1)
    bench.report(f"{count} groups of one member become stable", count)
    for number in range(count):
        group = f"group-{number}"
        offsets = tuple(OffsetToCommit("orders", each, 1) for each in range(OFFSETS_PER_GROUP))
        member = f"client-{number:036}"
        request = CommitRequest(group, member, None, 2, offsets)
        answer = bench.turn(partial(bench.coordinator.commit_offsets, request)).result()
        assert answer.errors == (ErrorCode.NONE,) * OFFSETS_PER_GROUP
    bench.report(f"{count} commits of {OFFSETS_PER_GROUP} partitions", count)
    for number in range(count):
        fetch = FetchOffsetsRequest(f"group-{number}", {"orders": tuple(range(OFFSETS_PER_GROUP))})
        bench.turn(partial(bench.coordinator.fetch_offsets, fetch))
    bench.report(f"{count} fetches of {OFFSETS_PER_GROUP} partitions", count)
    bench.compact()
    load(bench, f"load {count} groups, {OFFSETS_PER_GROUP} offsets each", count)
    bench.clock.advance(60_000)
    bench.tick_until_idle()
    bench.report(f"{count} sessions end at once", count)
    bench.clock.advance(8 * DAY_MS)
    bench.tick_until_idle()
    bench.report(f"{count} groups expire", count)


def main() -> None:
    """Measure groups of several sizes, which shows costs that are not linear."""
    loop = new_event_loop()
    for members in (10, 100, 1_000):
        large_group(Bench(loop), members)
    many_groups(Bench(loop), 10_000)
    loop.close()


if __name__ == "__main__":
    main()
