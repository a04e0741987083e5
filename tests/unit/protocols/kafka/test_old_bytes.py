"""The APIs of Kafka 0.8 and 0.9, byte for byte.

The bytes are written by hand, without the schema tables.
"""

import asyncio
import struct

import pytest

from broker.core.groups.commands.classic import (
    DescribedMember,
    GroupDescription,
    GroupState,
    JoinedMember,
    JoinResponse,
    LeaveRequest,
    LeavingMember,
    SyncResponse,
)
from broker.core.groups.commands.listing import GroupListing, ListGroupsResponse
from broker.core.groups.commands.offsets import FetchOffsetsResponse, OffsetToCommit
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.errors import ErrorCode
from tests.support.fakes import NOW_MS, FakeBroker, batch
from tests.support.guide_bytes import (
    API_VERSIONS,
    COMMIT,
    COORDINATOR,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LIST,
    LIST_OFFSETS,
    METADATA,
    OFFSETS,
    PRODUCE,
    SYNC,
    array,
    data,
    i8,
    i16,
    i32,
    i64,
    text,
)
from tests.support.guide_bytes import message as message_at


def message(magic: int, offset: int, value: bytes) -> bytes:
    """Return a plain message of now."""
    return message_at(magic, offset, value, NOW_MS)


def ask(broker: FakeBroker, key: int, version: int, body: bytes) -> bytes:
    """Send a body and return the body of the answer."""
    answer = asyncio.run(broker.answer(key, version, "old", body))
    assert answer is not None
    return answer


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a")
    return broker


# ---- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
def test_produce_is_answered_byte_for_byte(broker: FakeBroker, version: int, magic: int) -> None:
    messages = data(message(magic, 0, b"one") + message(magic, 1, b"two"))
    topics = [
        text("a") + array([i32(0) + messages, i32(7) + messages]),
        text("b") + array([i32(0) + messages]),
    ]

    answer = ask(broker, PRODUCE, version, i16(1) + i32(1000) + array(topics))

    time = i64(-1) if version == 2 else b""
    expected = array(
        [
            text("a") + array([i32(0) + i16(0) + i64(0) + time, i32(7) + i16(3) + i64(-1) + time]),
            text("b") + array([i32(0) + i16(3) + i64(-1) + time]),
        ]
    )
    assert answer == expected + (i32(0) if version else b"")
    assert broker.log("a").log_end_offset == 2


def test_produce_returns_log_append_time_since_version_2() -> None:
    broker = FakeBroker()
    broker.create("a", config={"message.timestamp.type": "LogAppendTime"})
    topics = [text("a") + array([i32(0) + data(message(1, 0, b"v"))])]

    answer = ask(broker, PRODUCE, 2, i16(-1) + i32(1000) + array(topics))

    partition = i32(0) + i16(0) + i64(0) + i64(NOW_MS)
    assert answer == array([text("a") + array([partition])]) + i32(0)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_fetch_is_answered_byte_for_byte(broker: FakeBroker, version: int) -> None:
    ask(
        broker,
        PRODUCE,
        2,
        i16(1)
        + i32(1000)
        + array([text("a") + array([i32(0) + data(message(1, 0, b"1") + message(1, 0, b"2"))])]),
    )
    limit = i32(1 << 20) if version == 3 else b""
    wanted = [i32(0) + i64(1) + i32(1 << 20), i32(7) + i64(0) + i32(1 << 20)]

    answer = ask(
        broker,
        FETCH,
        version,
        i32(-1) + i32(0) + i32(1) + limit + array([text("a") + array(wanted)]),
    )

    messages = message(0 if version < 2 else 1, 1, b"2")
    parts = [i32(0) + i16(0) + i64(2) + data(messages), i32(7) + i16(3) + i64(-1) + data(b"")]
    throttle = i32(0) if version else b""
    assert answer == throttle + array([text("a") + array(parts)])


def test_list_offsets_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    broker.log("a").append(batch(5))
    broker.log("a").segment_entries = [(0, 50, 100), (3, 50, 200)]
    wanted = [i32(0) + i64(-1) + i32(10), i32(0) + i64(-2) + i32(1), i32(7) + i64(-1) + i32(1)]

    answer = ask(broker, LIST_OFFSETS, 0, i32(-1) + array([text("a") + array(wanted)]))

    parts = [
        i32(0) + i16(0) + array([i64(5), i64(3), i64(0)]),
        i32(0) + i16(0) + array([i64(0)]),
        i32(7) + i16(3) + array([]),
    ]
    assert answer == array([text("a") + array(parts)])


def test_list_offsets_1_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    broker.log("a").append(batch(5, timestamp=70))

    answer = ask(
        broker,
        LIST_OFFSETS,
        1,
        i32(-1) + array([text("a") + array([i32(0) + i64(60)])]),
    )

    assert answer == array([text("a") + array([i32(0) + i16(0) + i64(70) + i64(0)])])


# ---- topics --------------------------------------------------------------------------------------

BROKERS = array([i32(1) + text("broker.example") + i32(9092)])
PARTITION = i16(0) + i32(0) + i32(1) + array([i32(1)]) + array([i32(1)])


def test_metadata_0_of_a_topic_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    answer = ask(broker, METADATA, 0, array([text("a")]))

    assert answer == BROKERS + array([i16(0) + text("a") + array([PARTITION])])


def test_metadata_0_without_topics_describes_all_topics(broker: FakeBroker) -> None:
    broker.create("b")

    answer = ask(broker, METADATA, 0, array([]))

    topics = [i16(0) + text(name) + array([PARTITION]) for name in ("a", "b")]
    assert answer == BROKERS + array(topics)


def test_metadata_0_creates_unknown_topics(broker: FakeBroker) -> None:
    answer = ask(broker, METADATA, 0, array([text("new")]))

    assert answer == BROKERS + array([i16(0) + text("new") + array([PARTITION])])


def test_metadata_0_reports_invalid_topics() -> None:
    broker = FakeBroker({"auto.create.topics.enable": "false"})

    answer = ask(broker, METADATA, 0, array([text("no/name"), text("unknown")]))

    topics = [i16(17) + text("no/name") + array([]), i16(3) + text("unknown") + array([])]
    assert answer == BROKERS + array(topics)


def test_metadata_1_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    answer = ask(broker, METADATA, 1, i32(-1))

    brokers = array([i32(1) + text("broker.example") + i32(9092) + text(None)])
    assert answer == brokers + i32(1) + array([i16(0) + text("a") + i8(0) + array([PARTITION])])


# ---- groups --------------------------------------------------------------------------------------


def test_group_coordinator_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    answer = ask(broker, COORDINATOR, 0, text("g"))

    assert answer == i16(0) + i32(1) + text("broker.example") + i32(9092)
    assert broker.topics.get(OFFSETS_TOPIC) is not None


@pytest.mark.parametrize("version", [0, 1])
def test_offset_commit_is_answered_byte_for_byte(broker: FakeBroker, version: int) -> None:
    member = i32(4) + text("m") if version else b""
    time = i64(NOW_MS) if version else b""
    wanted = [i32(0) + i64(9) + time + text("note"), i32(7) + i64(9) + time + text(None)]

    answer = ask(broker, COMMIT, version, text("g") + member + array([text("a") + array(wanted)]))

    assert answer == array([text("a") + array([i32(0) + i16(0), i32(7) + i16(3)])])
    [command] = broker.groups.commands
    assert (command.group_id, command.generation) == ("g", 4 if version else -1)
    assert command.member_id == ("m" if version else "")
    [offset] = command.offsets
    assert offset == OffsetToCommit("a", 0, 9, -1, "note", NOW_MS if version else -1)


@pytest.mark.parametrize("version", [0, 1])
def test_offset_fetch_is_answered_byte_for_byte(broker: FakeBroker, version: int) -> None:
    found = {"a": {0: CommittedOffset(9, -1, "note", NOW_MS, None), 1: None}}
    broker.groups.answers = [FetchOffsetsResponse(ErrorCode.NONE, found)]

    answer = ask(broker, OFFSETS, version, text("g") + array([text("a") + array([i32(0), i32(1)])]))

    parts = [i32(0) + i64(9) + text("note") + i16(0), i32(1) + i64(-1) + text("") + i16(0)]
    assert answer == array([text("a") + array(parts)])


@pytest.mark.parametrize("version", [0, 1])
def test_join_group_is_answered_byte_for_byte(broker: FakeBroker, version: int) -> None:
    joined = JoinedMember("m", None, b"topics")
    broker.groups.answers = [
        JoinResponse(ErrorCode.NONE, "m", 3, "consumer", "range", "m", (joined,))
    ]
    timeout = i32(60_000) if version else b""

    answer = ask(
        broker,
        JOIN,
        version,
        text("g")
        + i32(30_000)
        + timeout
        + text("")
        + text("consumer")
        + array([text("range") + data(b"topics"), text("roundrobin") + data(b"")]),
    )

    expected = i16(0) + i32(3) + text("range") + text("m") + text("m")
    assert answer == expected + array([text("m") + data(b"topics")])
    [command] = broker.groups.commands
    assert command.session_timeout_ms == 30_000
    assert command.rebalance_timeout_ms == (60_000 if version else 30_000)
    assert [each.name for each in command.protocols] == ["range", "roundrobin"]


def test_a_refused_join_group_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    broker.groups.answers = [JoinResponse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]

    body = text("g") + i32(30_000) + text("") + text("consumer") + array([])

    expected = i16(23) + i32(-1) + text("") + text("") + text("") + array([])
    assert ask(broker, JOIN, 0, body) == expected


def test_sync_group_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    broker.groups.answers = [SyncResponse(ErrorCode.NONE, b"assigned")]

    body = text("g") + i32(3) + text("m") + array([text("m") + data(b"assigned")])

    assert ask(broker, SYNC, 0, body) == i16(0) + data(b"assigned")
    assert broker.groups.commands[0].assignments == {"m": b"assigned"}


def test_sync_group_0_without_an_assignment_returns_empty_bytes(broker: FakeBroker) -> None:
    broker.groups.answers = [SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS)]

    assert ask(broker, SYNC, 0, text("g") + i32(3) + text("m") + array([])) == i16(27) + data(b"")


def test_heartbeat_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    broker.groups.answers = [ErrorCode.REBALANCE_IN_PROGRESS]

    assert ask(broker, HEARTBEAT, 0, text("g") + i32(3) + text("m")) == i16(27)


def test_leave_group_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    assert ask(broker, LEAVE, 0, text("g") + text("m")) == i16(0)
    assert broker.groups.commands == [LeaveRequest("g", (LeavingMember("m", None, ""),))]


def test_list_groups_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    listed = GroupListing("g", "consumer", "Stable", "classic")
    broker.groups.answers = [ListGroupsResponse(ErrorCode.NONE, (listed,))]

    assert ask(broker, LIST, 0, b"") == i16(0) + array([text("g") + text("consumer")])


def test_describe_groups_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    member = DescribedMember("m", None, "client", "/10.0.0.1", b"topics", b"assigned")
    broker.groups.answers = [
        GroupDescription(ErrorCode.NONE, "g", GroupState.STABLE, "consumer", "range", (member,))
    ]

    answer = ask(broker, DESCRIBE, 0, array([text("g"), text("unknown")]))

    described = text("m") + text("client") + text("/10.0.0.1") + data(b"topics") + data(b"assigned")
    groups = [
        i16(0) + text("g") + text("Stable") + text("consumer") + text("range") + array([described]),
        i16(0) + text("unknown") + text("Dead") + text("") + text("") + array([]),
    ]
    assert answer == array(groups)


def test_api_versions_0_is_answered_byte_for_byte(broker: FakeBroker) -> None:
    answer = ask(broker, API_VERSIONS, 0, b"")

    assert answer[:6] == i16(0) + answer[2:6]
    (count,) = struct.unpack_from(">i", answer, 2)
    rows = [struct.unpack_from(">hhh", answer, 6 + 6 * place) for place in range(count)]
    assert len(answer) == 6 + 6 * count
    assert {key: low for key, low, _ in rows if key <= FETCH} == {PRODUCE: 0, FETCH: 0}
