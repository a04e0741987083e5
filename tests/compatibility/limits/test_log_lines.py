"""Clients that could flood the broker's log: resets, refused requests, new names and the like.

A flood writes no line, or no more lines per event and second than the limit; the test counts by the
timestamps of the lines, so it does not depend on the speed of the machine.
"""

import errno
import re
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.model.limits import LOG_LINES_PER_SECOND_MAX
from tests.attacks.groups import join_body
from tests.conftest import TEST_SETTINGS
from tests.support import rustlog_client, wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.faulty_broker import ALWAYS, FaultyBroker
from tests.support.line_client import LineClient
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

TIMES = 500
# A second of the wall clock may overlap two seconds of the limit.
LINES_PER_SECOND_MAX = 2 * LOG_LINES_PER_SECOND_MAX
LINE_CHARS_MAX = 600
PIPELINED = 100
LINGER_NOT = struct.pack("ii", 1, 0)  # a close sends a reset
STORAGE_ERROR = 56
LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} ([A-Z]+ [\w.]+: \w+ ?\w*)")

Flood = Callable[[str], None]


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all floods."""
    broker = BrokerProcess(tmp_path_factory.mktemp("flooded"), settings=TEST_SETTINGS)
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.find_coordinator(client, "flood")
        wire_requests.create_topic(client, "flooded")
    yield broker
    assert broker.stop() == 0
    broker.check()


def ask_often(address: str, api: str, version: int, bodies: Iterator[dict[str, Any]]) -> list[Any]:
    """Send requests, PIPELINED at a time; return the answers' frames."""
    answers = []
    waiting = list(bodies)
    with WireClient(address) as client:
        for first in range(0, len(waiting), PIPELINED):
            part = waiting[first : first + PIPELINED]
            for body in part:
                client.send(api, version, body)
            answers += [client.receive_frame() for _ in part]
    return answers


def connect_often(address: str, send: Callable[[WireClient], None]) -> None:
    """Send something on a connection each, after which the broker closes."""
    for _ in range(TIMES):
        with WireClient(address) as client:
            send(client)
            client.expect_closed()


def reset(address: str) -> None:
    for _ in range(TIMES):
        with WireClient(address) as client:
            client.send("ApiVersions", 0, {})
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)


def send_malformed_requests(address: str) -> None:
    connect_often(address, lambda c: c.send_frame(c.frame("Metadata", 9, b"\xff" * 40)))


def send_frames_of_impossible_size(address: str) -> None:
    frame = struct.pack(">i", 101 << 20) + b"\0\3\0\0"
    connect_often(address, lambda client: client.send_bytes(frame))


def send_frames_of_no_protocol(address: str) -> None:
    connect_often(address, lambda client: client.send_bytes(b"\xff\xff\xff\xff\0\3\0\0"))


def write_out_of_sequence(address: str) -> None:
    with WireClient(address) as client:
        producer_id, epoch = wire_requests.init_producer_id(client)
    producer: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
    batches = (Batch([b"a"], **producer, base_sequence=7 + n).encode() for n in range(TIMES))
    bodies = (wire_requests.produce_body("flooded", [(0, each)]) for each in batches)
    ask_often(address, "Produce", wire_requests.PRODUCE_VERSION, bodies)


def fail_to_join(address: str) -> None:
    for changes in ({"member_id": "unknown"}, {"session_timeout_ms": -1}, {"protocol_type": ""}):
        bodies = (join_body("flood", **changes) for _ in range(TIMES))
        ask_often(address, "JoinGroup", 5, bodies)
    body = {"member_epoch": 5, "rebalance_timeout_ms": 9, "topic_partitions": []}
    body |= {"group_id": "flood", "member_id": "unknown", "subscribed_topic_names": ["flooded"]}
    ask_often(address, "ConsumerGroupHeartbeat", 0, (body for _ in range(TIMES)))


def ask_for_unknown_topics(address: str) -> None:
    batch = Batch([b"a"]).encode()
    written = (wire_requests.produce_body("flooded", [(99, batch)]) for _ in range(TIMES))
    ask_often(address, "Produce", wire_requests.PRODUCE_VERSION, written)
    wanted = [{"topics": [{"name": f"none-{n}"}]} for n in range(TIMES)]
    bodies = (each | {"allow_auto_topic_creation": False} for each in wanted)
    ask_often(address, "Metadata", 4, bodies)
    read = (wire_requests.fetch_body(f"none-{n}", 0, 0, 100) for n in range(TIMES))
    ask_often(address, "Fetch", 11, read)


def create_by_asking(address: str) -> None:
    wanted = [{"topics": [{"name": f"new-{n}"}]} for n in range(TIMES)]
    bodies = (each | {"allow_auto_topic_creation": True} for each in wanted)
    ask_often(address, "Metadata", 4, bodies)


def alter_a_topic(address: str) -> None:
    resource = {"resource_type": 2, "resource_name": "flooded"}
    change = {"name": "retention.ms", "config_operation": 0}
    changes = [[change | {"value": str(10**9 + n)}] for n in range(TIMES)]
    bodies = ({"resources": [resource | {"configs": each}]} for each in changes)
    wanted = (each | {"validate_only": False} for each in bodies)
    ask_often(address, "IncrementalAlterConfigs", 1, wanted)


def send_wrong_lines(address: str) -> None:
    with LineClient(address) as client:
        for _ in range(TIMES):
            client.send(b"V1|1|PRODUCE|bad/name u:x\nV1|1|NONE|x\nV1|2|CONSUME|bad/name 0 0\nx\n")
            for _ in range(4):
                client.line()


def send_wrong_commands(address: str) -> None:
    with CursusClient(address) as client:
        for _ in range(TIMES):
            for command in ("NONE a=b", "CREATE topic=a/b", "CONSUME topic=none-0"):
                client.ask(command)


def send_wrong_frames(address: str) -> None:
    host, _, port = address.rpartition(":")
    wrong = rustlog_client.create_topic("a\nERROR forged: b", 1), b"\xee" * 20
    for _ in range(TIMES):
        with socket.create_connection((host, int(port)), 60) as connection:
            for each in wrong:
                connection.sendall(rustlog_client.frame(each))
                connection.recv(1 << 10)


def check_bounds(lines: list[str]) -> None:
    """Fail if an event has more lines in a second than allowed, or one is too long."""
    found = [(line, LINE.match(line)) for line in lines]
    assert [line for line, match in found if match is None] == [], "nobody writes lines of his own"
    counts = Counter(match.groups() for _, match in found if match is not None)
    assert {each: n for each, n in counts.items() if n > LINES_PER_SECOND_MAX} == {}
    assert max(map(len, lines), default=0) <= LINE_CHARS_MAX


def lines_of(broker: BrokerProcess, flood: Flood) -> list[str]:
    """Return the lines that the broker writes during one flood."""
    before = len(broker.log_lines())
    flood(broker.address)
    wire_requests.assert_serves(broker.address)
    # Lines suppressed in an earlier flood are counted before a line of this one.
    return [line for line in broker.log_lines()[before:] if ": lines left out: " not in line]


@pytest.mark.parametrize(
    "flood",
    [
        reset,
        write_out_of_sequence,
        fail_to_join,
        ask_for_unknown_topics,
        send_wrong_lines,
        send_wrong_commands,
        send_wrong_frames,
    ],
)
def test_ordinary_client_mistakes_are_not_logged(flooded: BrokerProcess, flood: Flood) -> None:
    assert lines_of(flooded, flood) == []


@pytest.mark.parametrize(
    ("flood", "line"),
    [
        (send_malformed_requests, "WARNING broker.server.requests: request refused: "),
        (send_frames_of_impossible_size, "WARNING broker.server.requests: connection closed: "),
        (send_frames_of_no_protocol, "WARNING broker.server.requests: connection closed: "),
        (create_by_asking, "INFO broker.core.topics.topics: topic created: "),
        (alter_a_topic, "INFO broker.core.topics.topics: topic configuration altered: "),
    ],
)
def test_log_lines_per_second_are_limited_however_often_clients_cause_an_event(
    flooded: BrokerProcess, flood: Flood, line: str
) -> None:
    lines: list[str] = []

    def is_seen() -> bool:
        lines.extend(lines_of(flooded, flood))
        return any(line in each for each in lines)

    # Not at first, if the previous flood has used up the lines of this second.
    wait_until(is_seen, "a line of the event")
    check_bounds(lines)


def test_suppressed_log_lines_are_counted(flooded: BrokerProcess) -> None:
    before = len(flooded.log_lines())

    def is_counted() -> bool:
        send_malformed_requests(flooded.address)
        lines = flooded.log_lines()[before:]
        refused = sum("request refused: " in each for each in lines)
        found = re.findall(r"lines left out: count=(\d+) of='request refused: ", "\n".join(lines))
        sent[0] += TIMES
        # Suppressed lines of the current second are not counted yet; a slow machine suppresses
        # none.
        return bool(found) or refused == sent[0]

    sent = [0]
    wait_until(is_counted, "the count")


def test_requests_for_an_offline_log_write_one_log_line(tmp_path: Path) -> None:
    broker = FaultyBroker(tmp_path)
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "broken")
        broker.fail("sync_data", "*/broken-0/*.log", errno.EIO, 0, ALWAYS)
        assert wire_requests.produce(client, "broken", Batch().encode())[0] == STORAGE_ERROR

    bodies = (wire_requests.produce_body("broken", [(0, Batch().encode())]) for _ in range(TIMES))
    ask_often(broker.address, "Produce", wire_requests.PRODUCE_VERSION, bodies)
    bodies = (wire_requests.fetch_body("broken", 0, 0, 100) for _ in range(TIMES))
    ask_often(broker.address, "Fetch", 11, bodies)

    lines = [line for line in broker.log_lines() if "broken" in line and "created" not in line]
    assert len(lines) == 1
    assert "log offline topic=broken" in lines[0]
    broker.kill()
