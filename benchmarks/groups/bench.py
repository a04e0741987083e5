"""Groups: how long loads and rebalances take, and how long the longest turn of the loop is.

    python -m benchmarks.groups.bench

Times are of the processor. A turn is one command or one tick of the coordinator; no loop runs, so
that what the loop and the sockets cost is not in them. To reach (issue 6): 10,000 groups, or one of
1,000 members, are loaded in a second; no turn takes more than 5 ms; a join costs as much in a large
group as in a small one.
"""

import gc
import sys
import time
from asyncio import AbstractEventLoop, Future, new_event_loop
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TypeVar

from benchmarks.groups.kept_log import KeptLog
from broker.codec import encode, records
from broker.codec.coordinator_records import encode_assignment, encode_subscription
from broker.core.coordinator_partitions import Environment
from broker.core.groups.commands import (
    CommitRequest,
    FetchOffsetsRequest,
    GroupProtocol,
    GroupSettings,
    HeartbeatRequest,
    JoinRequest,
    JoinResponse,
    OffsetToCommit,
    SyncRequest,
)
from broker.core.groups.coordinator import GroupCoordinator
from broker.model.clock import ManualClock
from broker.model.errors import ErrorCode
from broker.model.limits import BATCH_BYTES_MAX
from broker.server.garbage_collection import CollectorPause

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
        """Begin with empty logs."""
        self.clock = ManualClock()
        self.logs = [KeptLog() for _ in range(PARTITIONS)]
        self.loop = loop
        self.turns: list[float] = []
        self.coordinator = self.start()

    def start(self) -> GroupCoordinator:
        """A broker that finds the logs as they are."""
        ids = count()
        return GroupCoordinator(
            Environment(
                lambda number: self.logs[number],
                self.loop.create_future,
                self.clock,
                lambda _: None,
            ),
            settings=GroupSettings(initial_rebalance_delay_ms=0),
            partition_count=PARTITIONS,
            fresh_id=lambda: f"{next(ids):036}",
        )

    def turn(self, work: Callable[[], ResultT]) -> ResultT:
        """Do what one turn of the loop does, and keep its time."""
        start = time.process_time_ns()
        result = work()
        self.turns.append((time.process_time_ns() - start) / 1e6)
        return result

    def tick_until(self, is_done: Callable[[], bool]) -> None:
        """Take turns as long as there is something to do."""
        while not is_done():
            self.turn(self.coordinator.tick)

    def tick_until_idle(self) -> None:
        """Take turns until the next one is later than now."""
        while self.turn(self.coordinator.tick) <= self.clock.monotonic_ms():
            pass

    def report(self, what: str, units: int) -> None:
        """Print what was measured since the last report."""
        total = sum(self.turns)
        sys.stdout.write(
            f"{what:<44} {total:9.1f} ms  {1000 * total / units:8.1f} us each  "
            f"{len(self.turns):6} turns, longest {max(self.turns):6.2f} ms\n"
        )
        self.turns.clear()

    def compact(self) -> None:
        """Keep the newest record of each key, as the cleaner does."""
        for number, log in enumerate(self.logs):
            kept = self.logs[number] = KeptLog()
            newest = {each.key: each.value for each in records(log.everything())}
            for key, value in newest.items():
                [batch] = encode([(key, value)], batch_bytes_max=BATCH_BYTES_MAX)
                kept.append_internal(batch)

    # ---- commands --------------------------------------------------------------------------------

    def join(self, group: str, member: str = "", client: str = "client") -> Future[JoinResponse]:
        """Ask to be in the next generation."""
        protocols = (GroupProtocol("range", SUBSCRIPTION), GroupProtocol("sticky", SUBSCRIPTION))
        return self.coordinator.join_group(
            JoinRequest(
                group, member, None, client, "/127.0.0.1", 45_000, 300_000, "consumer", protocols
            )
        )

    def become_stable(self, group: str, count: int) -> list[str]:
        """Let a group have so many members: one alone, then the others together."""
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
    """Measure how a new broker loads all the logs."""
    bench.turns.clear()
    gc.collect()
    quiet = CollectorPause()  # as the server does
    quiet.begin()
    bench.coordinator = bench.start()
    for number, log in enumerate(bench.logs):
        bench.coordinator.recovered(number, is_empty=log.log_end_offset == 0)
    bench.tick_until_idle()
    bench.report(what, units)
    quiet.end()


def large_group(bench: Bench, count: int) -> None:
    """A group of so many members joins, syncs, lives, and is loaded."""
    bench.turns.clear()
    members = bench.become_stable("large", count)
    bench.report(f"{count} members join and sync", count)
    for member in members:
        request = HeartbeatRequest("large", member, None, 2)
        bench.turn(partial(bench.coordinator.heartbeat, request))
    bench.report(f"heartbeats of {count} members", count)
    load(bench, f"load a group of {count} members", count)


def many_groups(bench: Bench, count: int) -> None:
    """So many groups of one member commit, are loaded, listed, and expire."""
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
    """Measure groups of several sizes, so that what is not linear can be seen."""
    loop = new_event_loop()
    for members in (10, 100, 1_000):
        large_group(Bench(loop), members)
    many_groups(Bench(loop), 10_000)
    loop.close()


if __name__ == "__main__":
    main()
