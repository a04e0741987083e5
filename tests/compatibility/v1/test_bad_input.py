"""Input that no V1 client sends: it gets an error or ends its connection; others are served."""

import socket
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.broker_process import Broker, wait_until
from tests.support.line_client import LineClient

pytestmark = pytest.mark.usefixtures("still_well")

LINE_BYTES_MAX = 65_535
COMMANDS = st.sampled_from(
    [
        "PRODUCE", "CONSUME", "JOIN", "SYNC", "HEARTBEAT", "LEAVE", "COMMIT", "OFFSET", "PING",
        "REPLICA_FETCH", "SET_PARTITION_ROLE", "BROKER_FETCH", "BROKER_REPLICA_ACK",
        "ADMIN_GET_METADATA", "ADMIN_BROKER_HEARTBEAT", "ADMIN_SET_PARTITION_LEADER",
        "ADMIN_CREATE_TOPIC", "ADMIN_ELECT_TOPIC_LEADERS", "ADMIN_FENCE_BROKER", "",
    ]
)  # fmt: skip
WORDS = st.sampled_from(
    [
        "odd", "odd", "k:v", "0", "1", "-1", "2", "acks=all", "acks=1", "leader", "follower",
        "assignor=range", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "|", "=", "hw=1", "[", "\x00", "..", "a/b", "x" * 250, "\u2003", "\x1c", "ä",
    ]
)  # fmt: skip
BYTES = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b""))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Return a line that is more or less valid."""
    if draw(st.integers(0, 9)) == 0:
        return draw(BYTES)
    args = b" ".join(draw(st.lists(WORDS.map(str.encode) | BYTES, max_size=7)))
    version, correlation_id = draw(st.sampled_from(["V1", "V1", "V1", "v1", ""])), draw(WORDS)
    return f"{version}|{correlation_id}|{draw(COMMANDS)}|".encode() + args


@given(sent=st.lists(lines(), min_size=1, max_size=30), cut=st.integers(1, 200))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_line_is_answered_with_one_line(broker: Broker, sent: list[bytes], cut: int) -> None:
    data = b"".join(each + b"\n" for each in [b"V1|first|PING|", *sent])
    with LineClient(broker.address) as client:
        for start in range(0, len(data), cut):
            client.send(data[start : start + cut])
        answers = client.end().split(b"\n")

    assert answers.pop() == b""
    assert len(answers) == 1 + len(sent)
    for answer in answers:
        version, _, status, *_ = answer.split(b"|")
        assert version == b"V1"
        assert status in {b"OK", b"ERR"}


@pytest.mark.parametrize("filler", [b"\x00", b"|", b" ", b",", b"=", b"\xff", b"\xe2\x80\x83"])
def test_a_line_of_arbitrary_bytes_is_answered(
    lines: LineClient, topic: str, filler: bytes
) -> None:
    lines.ask(b"V1|1|PING|")  # which makes it V1, whatever follows
    for head in (b"V1|", b"V1|1|", b"V1|1|CONSUME|", f"V1|1|PRODUCE|{topic} k:".encode()):
        line = head + filler * ((LINE_BYTES_MAX - len(head)) // len(filler))
        lines.send(line + b"\n")

        assert lines.line().startswith(b"V1|")


def test_a_line_that_never_ends_is_not_buffered_beyond_a_limit(broker: Broker) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(LineClient(broker.address)) for _ in range(100)]
        for client in clients:
            client.send(b"V1|1|PRODUCE|t k:" + b"x" * 60_000)
        for client in clients:
            client.send(b"x" * 6_000)

        assert [client.line() for client in clients] == [b""] * len(clients)


def test_commands_of_a_peer_that_disconnects_without_reading_are_executed(
    broker: Broker, topic: str
) -> None:
    for _ in range(50):
        with LineClient(broker.address) as client:
            client.send(f"V1|1|PRODUCE|{topic} k:v acks=all\nV1|2|JOIN|g {topic} c\n".encode())

    with LineClient(broker.address) as client:
        partition = client.command(f"PRODUCE {topic} k:v").partition("=")[2][0]
        wait_until(
            lambda: "49:v" in client.command(f"CONSUME {topic} {partition} 0"), "they are written"
        )


def test_a_half_closed_peer_gets_its_answers(broker: Broker, topic: str) -> None:
    with LineClient(broker.address) as client:
        for number in range(100):
            client.send(f"V1|{number}|PRODUCE|{topic} user1:{number} acks=all\n".encode())
        client.socket.shutdown(socket.SHUT_WR)

        for number in range(100):
            answer = f"V1|{number}|OK|partition=2 offset={number} hw={number}\n"
            assert client.line() == answer.encode()
        assert client.line() == b""


def test_many_requests_for_large_responses_do_not_block_others(broker: Broker, topic: str) -> None:
    with LineClient(broker.address) as filler:
        for _ in range(60):
            filler.command(f"PRODUCE {topic} user1:{'x' * 60_000}")
    with LineClient(broker.address) as greedy, LineClient(broker.address) as other:
        greedy.send(f"V1|1|CONSUME|{topic} 2 0\n".encode() * 200)

        assert other.command(f"PRODUCE {topic} user1:v").startswith("OK|")
        assert greedy.end().count(b"\n") == 200
