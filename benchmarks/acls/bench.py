"""ACLs: the cost of a decision, and of the check on a native path, by the number of entries.

    python -m benchmarks.acls.bench

A native request is a ListOffsets of one partition through a socket pair, in one process: with an
authorizer, and without. Runs alternate, and the difference of the medians is the check. Goals: at
most 100 ns on the native path with 1,000 entries; the exit code is 1 if that is not met.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from broker._native.log.permissions import DESCRIBE, Permissions
from broker.core.cluster.security_entries import SecurityEntries
from broker.core.security.acls import (
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from broker.core.security.authorizer import Authorizer
from broker.model.principal import Principal
from broker.storage.metadata import KeyValue, security_key
from tests.support.native_log import Logs
from tests.support.native_wire import LIST_OFFSETS, Wire, request

COUNTS = (10, 1_000, 10_000)
GOAL_COUNT, GOAL_NS = 1_000, 100.0
ROUNDS = 41
REQUESTS = 2_000
HOST = "192.0.2.7"
ALICE = Principal("User", "alice")


def entry(number: int) -> Acl:
    """Return one of many entries: literal and prefixed, of many principals, few of alice."""
    who = "User:alice" if number % 10 == 0 else f"User:{number}"
    pattern_type = PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL
    name = "topic" if number == 0 else f"topic-{number}"
    pattern = Pattern(ResourceType.TOPIC, name, pattern_type)
    return Acl(pattern, who, "*", Operation.READ, Permission.ALLOW)


def authorizer(count: int, wire: Wire) -> Authorizer:
    """Return one with so many entries."""
    entries = SecurityEntries()
    for number in range(count):
        acl = entry(number)
        key = security_key("acl", acl.key)
        entries.set(key, KeyValue(key, acl.value, 1, 1))
    return Authorizer(entries, wire.table, super_users=(), allows_unlisted=False)


def ns_per_call(call: Callable[[int], object], times: int) -> float:
    """Return the processor time of one call."""
    begun = time.process_time_ns()
    for number in range(times):
        call(number)
    return (time.process_time_ns() - begun) / times


def decisions(made: Authorizer) -> tuple[float, float]:
    """Return the time of a decision that is new, and of one that was made before."""

    def ask(number: int) -> bool:
        name = f"topic-{number}"
        return made.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, name)

    return ns_per_call(ask, 5_000), ns_per_call(ask, 5_000)


def native(wire: Wire, known: Permissions) -> tuple[float, float]:
    """Return the times of a native request without an authorizer and with one."""
    partition = {"partition_index": 0, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": "topic", "partitions": [partition]}]}
    data = request(LIST_OFFSETS, 6, body)
    client = wire.connect(SimpleNamespace(permissions=known))
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for authorizes in (False, True):
            wire.poller.authorizes = authorizes
            begun = time.process_time_ns()
            for _ in range(REQUESTS):
                client.socket.send(data)
                wire.poller()
                wire.poller.end()
                client.socket.recv(1 << 16)
            times[authorizes].append((time.process_time_ns() - begun) / REQUESTS)
    assert not wire.slow, "Python has served some"
    return statistics.median(times[False]), statistics.median(times[True])


def main() -> int:
    """Print a row for each number of entries; return 1 if the goal is not met."""
    is_met = True
    print("entries   decision, new   decision, kept   native request: without   with   check")
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            logs = Logs(Path(folder))
            wire = Wire(logs)
            wire.serve(logs.create(0, is_group_commit=False))
            made = authorizer(count, wire)
            new, kept = decisions(made)
            known = made.permissions(ALICE, HOST)
            known.allow("topic", DESCRIBE)
            without, with_it = native(wire, known)
            print(
                f"{count:>7}   {new:>10.0f} ns   {kept:>11.0f} ns   {without:>20.0f} ns"
                f"   {with_it:.0f} ns   {with_it - without:+.0f} ns"
            )
            if count == GOAL_COUNT:
                is_met = with_it - without <= GOAL_NS
            wire.close()
    verdict = "met" if is_met else "NOT MET"
    print(f"goal: a check of {GOAL_NS:.0f} ns at most with {GOAL_COUNT:,} entries: {verdict}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
