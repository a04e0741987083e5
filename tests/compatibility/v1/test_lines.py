"""V1's lines and their envelope: golden bytes, in pieces of any size."""

import socket
import time

import pytest

from tests.support.broker_process import Broker
from tests.support.line_client import LineClient

LINE_BYTES_MAX = 65_535
BAD_FORMAT = b"V1|0|ERR|BAD_REQUEST|expected format V1|<correlation_id>|<command>|<args>"
UNKNOWN = b"V1|7|ERR|UNKNOWN_COMMAND|unsupported command"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"", BAD_FORMAT),
        (b"   ", BAD_FORMAT),
        (b"V1|7|PING", BAD_FORMAT),
        (b"hello there", BAD_FORMAT),
        (b"V2|7|PING|", b"V1|0|ERR|BAD_REQUEST|unsupported version"),
        (b"v1|7|PING|", b"V1|0|ERR|BAD_REQUEST|unsupported version"),
        (b"V1||PING|", b"V1|0|ERR|BAD_REQUEST|correlation id required"),
        (b"V1| \t |PING|", b"V1|0|ERR|BAD_REQUEST|correlation id required"),
        (b"V1|||", b"V1|0|ERR|BAD_REQUEST|correlation id required"),
        (b"V1|7||", b"V1|0|ERR|BAD_REQUEST|command required"),
        (b"V1|7|\xe2\x80\x83|", b"V1|0|ERR|BAD_REQUEST|command required"),
        (b"V2||PING|", b"V1|0|ERR|BAD_REQUEST|unsupported version"),
        (b"V1|7|PING|", UNKNOWN),
        (b" \t V1 | 7 | ping | x | y ", UNKNOWN),
        (b"V1|7|PING|\r", UNKNOWN),
        (b"V1|a b \xff c|PING|", b"V1|a b \xff c|ERR|UNKNOWN_COMMAND|unsupported command"),
        (b"V1|\xc2\xa07\xc2\x85|PING|", UNKNOWN),
        (b"V1|\x1c7|PING|", b"V1|\x1c7|ERR|UNKNOWN_COMMAND|unsupported command"),
        (b"V1|7|O\xef\xac\x80SET|g t 0", UNKNOWN),
        (b"V1|7|\x00|", UNKNOWN),
        (b"V1|7|offset|g nowhere 0", b"V1|7|OK|offset=0"),
        (b"V1|7|OFFSET|g\xe2\x80\xa8nowhere\x0b0\xe3\x80\x80", b"V1|7|OK|offset=0"),
        (
            b"V1|7|OFFSET|g\x1cnowhere\x1d0",
            b"V1|7|ERR|BAD_REQUEST|OFFSET requires: <group> <topic> <partition>",
        ),
    ],
)
def test_a_line_is_answered_with_a_line(lines: LineClient, line: bytes, answer: bytes) -> None:
    assert lines.ask(b"V1|first|PING|").endswith(b"unsupported command")

    assert lines.ask(line) == answer
    assert lines.ask(b"V1|7|PING|") == UNKNOWN, "the connection goes on"


@pytest.mark.parametrize("first", [b"\n", b"a\n", b"ab\n", b"abc\n", b"\r\n", b" \n"])
def test_a_first_line_too_short_for_protocol_detection_is_answered(
    lines: LineClient, first: bytes
) -> None:
    lines.send(first)

    assert lines.line() == BAD_FORMAT + b"\n"


def test_a_line_may_arrive_byte_by_byte(lines: LineClient) -> None:
    for byte in b"V1|7|OFFSET|group topic 0\n":
        lines.send(bytes((byte,)))
        time.sleep(0.001)

    assert lines.line() == b"V1|7|OK|offset=0\n"


def test_a_last_line_needs_no_newline(lines: LineClient) -> None:
    lines.send(b"V1|1|PING|\nV1|2|OFFSET|group topic 0")

    assert lines.end() == (b"V1|1|ERR|UNKNOWN_COMMAND|unsupported command\nV1|2|OK|offset=0\n")


def test_a_request_cut_at_any_length_has_exactly_one_response(broker: Broker, topic: str) -> None:
    line = f"V1|1|PRODUCE|{topic} k:v acks=1\n".encode()

    for length in range(4, len(line) + 1):
        with LineClient(broker.address) as client:
            client.send(line[:length])
            assert client.end().count(b"\n") == 1


def test_lines_sent_at_once_are_answered_in_order(lines: LineClient, topic: str) -> None:
    commands = [
        line
        for number in range(200)
        for line in (
            f"V1|p{number}|PRODUCE|{topic} user1:{number}\n",
            f"V1|o{number}|OFFSET|g {topic} 0\n",
        )
    ]
    lines.send("".join(commands).encode())

    answers = lines.end().decode().splitlines()

    assert [each.split("|")[1] for each in answers] == [each.split("|")[1] for each in commands]
    offsets = [each.rpartition("offset=")[2].split()[0] for each in answers[::2]]
    assert offsets == [str(number) for number in range(200)]


def test_the_longest_line_is_served(lines: LineClient, topic: str) -> None:
    head = f"V1|1|PRODUCE|{topic} user1:".encode()

    lines.send(head + b"x" * (LINE_BYTES_MAX - len(head)) + b"\n")

    assert lines.line() == b"V1|1|OK|partition=2 offset=0 hw=0\n"


def test_a_line_above_the_limit_closes_the_connection_after_the_pending_responses(
    lines: LineClient, topic: str
) -> None:
    line = f"V1|1|PRODUCE|{topic} user1:value\n".encode()

    lines.send(line + b"x" * (LINE_BYTES_MAX + 1))

    assert lines.line() == b"V1|1|OK|partition=2 offset=0 hw=0\n"
    assert lines.line() == b""


def test_nothing_after_a_line_above_the_limit_is_served(broker: Broker, topic: str) -> None:
    with LineClient(broker.address) as client:
        too_long = b"x" * (LINE_BYTES_MAX + 1) + b"\n"
        client.send(too_long + f"V1|1|PRODUCE|{topic} user1:value\n".encode())
        assert client.line() == b""

    with LineClient(broker.address) as client:
        assert client.command(f"CONSUME {topic} 2 0") == "OK|messages= hw=-1"


def test_a_peer_that_reads_nothing_does_not_block_others(broker: Broker, topic: str) -> None:
    with LineClient(broker.address) as filler:
        for _ in range(30):
            filler.command(f"PRODUCE {topic} user1:{'x' * 60_000}")
    with LineClient(broker.address, timeout_s=1.0) as deaf, LineClient(broker.address) as other:
        line = f"V1|1|CONSUME|{topic} 2 0\n".encode()
        with pytest.raises(TimeoutError):
            deaf.send(line * 1_000_000)

        assert other.command(f"PRODUCE {topic} user1:after").startswith("OK|")


def test_a_peer_that_stalls_within_a_line_does_not_block_others(broker: Broker, topic: str) -> None:
    with LineClient(broker.address) as half, LineClient(broker.address) as other:
        half.send(b"V1|1|PRODUCE|" + topic.encode())

        assert other.command(f"PRODUCE {topic} user1:value").startswith("OK|")


def test_a_peer_that_resets_its_connection_does_not_affect_others(
    broker: Broker, topic: str
) -> None:
    with LineClient(broker.address) as client:
        client.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        client.send(f"V1|1|PRODUCE|{topic} user1:value\n".encode() * 100)
    with LineClient(broker.address) as other:
        assert other.command(f"PRODUCE {topic} user1:value").startswith("OK|")
