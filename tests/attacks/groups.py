"""Attacks on the group coordinator: many members, many groups, much metadata for each."""

import struct
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any

from tests.attacks.topics import PARTITIONS, wide_topics
from tests.support import wire_requests
from tests.support.wire_client import ConnectionClosedError, WireClient

MEMBERS = 1_200
GROUPS = 2_000
WIDE_GROUPS = 120
PATTERNS = 100
NAMES_PER_MEMBER = 60_000
OFFSET_GROUPS = 150
JOIN_WITHOUT_ID = 3  # the last version in which the first join needs no member id
JOIN_WITH_ID = 5
KIB = 1 << 10
INT32_MAX = 0x7FFFFFFF


def join_body(group: str, metadata: bytes = b"", **changes: Any) -> dict[str, Any]:
    """A JoinGroup of a member without an id."""
    return {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 300_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    } | changes


def heartbeat_body(group: str, member: str, **changes: Any) -> dict[str, Any]:
    """A ConsumerGroupHeartbeat of a member that joins."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "rebalance_timeout_ms": 300_000,
        "subscribed_topic_names": [],
        "topic_partitions": [],
    } | changes


def send_all(client: WireClient, name: str, version: int, bodies: Iterable[dict[str, Any]]) -> None:
    """Send each request after the response to the previous one; stop if the broker closes."""
    with suppress(ConnectionClosedError, TimeoutError):
        for body in bodies:
            client.request(name, version, body)


def join_one_group_with_more_than_it_may_have(address: str, held: ExitStack) -> None:
    """Join many members; then all leave at once, and half of them join again."""
    for _ in range(2):
        members = [held.enter_context(WireClient(address)) for _ in range(MEMBERS // 2)]
        wire_requests.find_coordinator(members[0], "crowd")
        for each in members:
            each.send("JoinGroup", JOIN_WITHOUT_ID, join_body("crowd", b"x" * 500))
        for each in members[::2]:
            each.close()


def join_with_a_megabyte_each(address: str, held: ExitStack) -> None:
    """Join as many groups as given, each with as much metadata as allowed."""
    metadata = b"x" * (1_000 * KIB)
    for number in range(WIDE_GROUPS):
        member = held.enter_context(WireClient(address))
        with suppress(ConnectionClosedError):
            wire_requests.find_coordinator(member, f"wide-{number}")
            member.send("JoinGroup", JOIN_WITHOUT_ID, join_body(f"wide-{number}", metadata))


def join_with_long_words(address: str, held: ExitStack) -> None:
    """Join with long protocol types, protocol names, member ids and reasons."""
    word = "x" * 32_000
    client = held.enter_context(WireClient(address))
    protocols = [{"name": f"{each}{word}", "metadata": b""} for each in range(60)]
    bodies = [join_body(f"words-{n}", protocols=protocols) for n in range(100)]
    bodies += [join_body(f"type-{n}", protocol_type=word) for n in range(1_000)]
    bodies += [join_body(word, member_id=word, reason=word) for _ in range(100)]
    send_all(client, "JoinGroup", JOIN_WITH_ID, bodies)
    for each in bodies[:60:20]:
        other = held.enter_context(WireClient(address))
        other.send("JoinGroup", JOIN_WITHOUT_ID, each)


def ask_for_member_ids_without_end(address: str, held: ExitStack) -> None:
    """Request member ids that are never used; each is kept for a session timeout."""
    client = held.enter_context(WireClient(address))
    bodies = [join_body(f"ids-{n % GROUPS}", session_timeout_ms=1_800_000) for n in range(6_000)]
    bodies += [join_body("ids", session_timeout_ms=t) for t in (-1, 0, INT32_MAX, -INT32_MAX)]
    with suppress(ConnectionClosedError):
        for start in range(0, len(bodies), 1_000):
            for body in bodies[start : start + 1_000]:
                client.send("JoinGroup", JOIN_WITH_ID, body)
            for _ in bodies[start : start + 1_000]:
                client.receive_frame()


def subscribe_to_names_without_end(address: str, held: ExitStack) -> None:
    """Join members of the consumer protocol, each with as many topic names as allowed."""
    client = held.enter_context(WireClient(address))
    names = [struct.pack(">I", each).hex()[4:] for each in range(NAMES_PER_MEMBER)]
    send_all(
        client,
        "ConsumerGroupHeartbeat",
        1,
        (heartbeat_body(f"names-{n}", f"m{n}", subscribed_topic_names=names) for n in range(30)),
    )


def subscribe_by_patterns_without_end(address: str, held: ExitStack) -> None:
    """Subscribe by patterns that a backtracking engine never finishes or that need much memory."""
    client = held.enter_context(WireClient(address))
    patterns = ["(a+)+$", "(a|aa)+$", "(.*)*x", "(?:a?){900}a{900}", "((a{0,90}){0,90}){0,90}", "("]
    patterns += [f"(x{n}|" + "[a-z]{1,9}" * 380 + ")" for n in range(PATTERNS)]
    send_all(
        client,
        "ConsumerGroupHeartbeat",
        1,
        (
            heartbeat_body("by-pattern", f"m{n}", subscribed_topic_regex=pattern)
            for n, pattern in enumerate(patterns)
        ),
    )


def commit_long_words_with_offsets(address: str, held: ExitStack) -> None:
    """Commit offsets of many groups, each with as much metadata as allowed."""
    client = held.enter_context(WireClient(address))
    wire_requests.find_coordinator(client, "offsets-0")
    [topic, *_] = wide_topics(address)
    offset = {"committed_offset": 1, "committed_metadata": "x" * 4_096}
    partitions = [offset | {"partition_index": each} for each in range(PARTITIONS)]
    topics = [{"name": topic, "partitions": partitions}]
    send_all(
        client,
        "OffsetCommit",
        7,
        ({"group_id": f"offsets-{n}", "topics": topics} for n in range(OFFSET_GROUPS)),
    )


ATTACKS = [
    join_one_group_with_more_than_it_may_have,
    join_with_a_megabyte_each,
    join_with_long_words,
    ask_for_member_ids_without_end,
    subscribe_to_names_without_end,
    subscribe_by_patterns_without_end,
    commit_long_words_with_offsets,
]
