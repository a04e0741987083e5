"""How much one turn serves of a connection, what it keeps, and what the next turn serves first."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.v1 import protocol as v1
from broker.model.limits import (
    REPLY_MEMORY_BYTES_PER_CONNECTION,
    WAITING_REPLY_BYTES_PER_CONNECTION,
)
from tests.support.native_log import Logs, appended, records
from tests.support.native_wire import Client, Wire, produce

if TYPE_CHECKING:
    from broker._native.wire.pending_reply import PendingReply

REFUSAL = b"ERR|NOT_LEADER|the test says so\n"
SLOT_BYTES_MIN = 250  # the buffer of a waiting response, in addition to its bytes
PRODUCE = b"V1|1|PRODUCE|topic a:b\n"


@pytest.fixture
def protocol() -> v1.V1:
    """What is spoken."""
    return v1.V1(object(), REFUSAL)


@pytest.fixture
def lines(logs: Logs, log: PartitionLog, protocol: v1.V1) -> Iterator[Wire]:
    """A poller of one partition that speaks V1."""
    wire = Wire(logs)
    wire.serve(log)
    wire.poller.serve_with(
        {"v1": protocol},
        wire.slow.extend,
        lambda _, reason: wire.closed.append(reason),
    )
    yield wire
    wire.close()


def received(client: Client) -> bytes:
    """Return what has arrived."""
    data = b""
    while True:
        try:
            more = client.socket.recv(1 << 20)
        except (BlockingIOError, ConnectionResetError):
            return data
        if not more:
            return data
        data += more


def test_queued_lines_are_served_before_the_end_of_stream_is_handled(
    lines: Wire, log: PartitionLog
) -> None:
    client = lines.connect()
    client.socket.send(b"V1|1|LIST|\n" + 2 * PRODUCE)
    lines.poller()
    [pending] = lines.slow

    pending.send(b"V1|1|OK\n")
    client.socket.shutdown(socket.SHUT_WR)
    lines.poller()  # sees the end before the turn in which the next line is served
    lines.run()

    assert log.log_end_offset == 2
    assert received(client).count(b"|OK") == 3
    assert lines.slow == [pending]


def test_lines_beyond_a_turns_share_are_served_in_later_turns(
    lines: Wire, log: PartitionLog
) -> None:
    lines.poller.budget_us = 0
    client = lines.connect()
    client.socket.send(1000 * PRODUCE)

    lines.poller()
    served = log.log_end_offset
    lines.run()

    assert 0 < served < 200
    assert log.log_end_offset == 1000
    assert received(client).count(b"|OK|") == 1000


def test_the_end_of_stream_is_handled_after_all_lines_of_the_client(
    lines: Wire, log: PartitionLog
) -> None:
    lines.poller.budget_us = 0
    client = lines.connect()
    client.socket.send(1000 * PRODUCE + PRODUCE[:-1])
    client.socket.shutdown(socket.SHUT_WR)

    lines.run()

    assert log.log_end_offset == 1001
    assert received(client).count(b"|OK|") == 1001
    assert lines.closed == ["closed after its last reply"]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_client_that_sends_continuously_does_not_delay_the_others(
    lines: Wire, count: int
) -> None:
    lines.poller.budget_us = 0
    flooding = [lines.connect() for _ in range(count)]
    for client in flooding:
        client.socket.send(2000 * PRODUCE)
    other = lines.connect()
    other.socket.send(PRODUCE)

    turns = 0
    while not (answer := received(other)):
        lines.poller()
        lines.poller.end()
        turns += 1

    assert answer.count(b"|OK|") == 1
    assert turns <= 3 * (count + 1)
    assert all(received(client).count(b"|OK|") < 2000 for client in flooding)


def test_all_clients_that_send_continuously_get_turns(lines: Wire) -> None:
    lines.poller.budget_us = 0
    clients = [lines.connect() for _ in range(5)]
    for client in clients:
        client.socket.send(4000 * PRODUCE)

    for _ in range(60):
        lines.poller()
        lines.poller.end()

    answered = [received(client).count(b"|OK|") for client in clients]
    assert min(answered) > 0
    assert max(answered) < 2 * min(answered)


def test_no_client_is_served_again_before_all_ready_clients_were(lines: Wire) -> None:
    lines.poller.budget_us = 0
    clients = [lines.connect() for _ in range(40)]
    answers = [0] * len(clients)
    for client in clients:
        client.socket.send(PRODUCE)

    while max(answers) < 4:
        lines.poller()
        lines.poller.end()
        for place, client in enumerate(clients):
            if received(client):
                answers[place] += 1
                if place % 2:  # the others send nothing more
                    client.socket.send(PRODUCE)
        assert max(answers) < 2 or min(answers) > 0


def test_bytes_read_from_a_log_count_against_the_turns_share(
    lines: Wire, log: PartitionLog
) -> None:
    lines.poller.budget_us = 0
    appended(log, records(1, size=100_000))
    lines.run()
    client = lines.connect()
    client.socket.send(10 * b"V1|1|CONSUME|topic 0 0\n")

    lines.poller()
    answered = received(client).count(b"|OK|")
    while lines.is_ready or answered < 10:
        lines.run()
        answered += received(client).count(b"|OK|")

    assert answered == 10
    assert lines.slow == []


def test_few_responses_are_buffered_for_a_client_that_does_not_read(
    lines: Wire, protocol: v1.V1, log: PartitionLog
) -> None:
    appended(log, records(1, size=200_000))
    lines.run()
    client = lines.connect()
    client.socket.send(100 * b"V1|1|CONSUME|topic 0 0\n")

    lines.run()
    held = protocol.requests * 200_000
    answers = b""
    while len(answers) < 100 * 200_000:
        answers += received(client)
        lines.run()

    assert held < REPLY_MEMORY_BYTES_PER_CONNECTION + WAITING_REPLY_BYTES_PER_CONNECTION + 600_000
    assert answers.count(b"|OK|") == 100


def test_short_unread_responses_count_with_their_whole_buffers(
    logs: Logs, lines: Wire, protocol: v1.V1
) -> None:
    lines.table.remove("topic")
    lines.serve(logs.create(1))
    unwatched = CommitThread(1)
    logs.turn.commit = unwatched  # finished jobs are not taken: nothing becomes durable
    client = lines.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    for _ in range(100):
        try:
            client.socket.send(PRODUCE * 100)
        except BlockingIOError:
            break
        lines.run()

    assert 3000 < protocol.requests < WAITING_REPLY_BYTES_PER_CONNECTION // SLOT_BYTES_MIN


def test_no_request_of_a_closed_connection_is_handed_to_python(lines: Wire) -> None:
    lines.poller.budget_us = 0
    for count in range(100, 150):
        client = lines.connect()
        client.socket.send(count * PRODUCE + b"V1|1|LIST|\n")
        lines.poller()
        handed_over = len(lines.slow)

        client.connection.abort("the test says so")
        lines.run()

        assert len(lines.slow) == handed_over
        lines.slow.clear()


def test_a_long_frame_completed_at_the_end_of_a_turn_is_served_in_the_next(
    logs: Logs, log: PartitionLog
) -> None:
    wire = Wire(logs)
    wire.serve(log)
    wire.poller.budget_us = 0
    short, long = produce(9, (0, records())), produce(9, (0, records(size=300_000)))
    for others in range(50, 64):  # the clock is read once per this many served requests
        busy, client = wire.connect(), wire.connect()
        client.send(long[:-10])
        client.socket.send(long[-10:] + short)
        busy.socket.send(others * short)  # it is not first: the client was served before

        assert len(client.wait_frames(2)) == 2
    wire.close()


def test_the_loop_is_asked_once_for_the_next_turn(lines: Wire) -> None:
    lines.poller.budget_us = 0
    asked: list[None] = []
    lines.logs.turn.schedule = lambda: asked.append(None)
    lines.connect().socket.send(5000 * PRODUCE)
    other = lines.connect()

    for _ in range(5):
        other.socket.send(PRODUCE)
        lines.poller()
    assert len(asked) == 1

    lines.poller.end()
    assert len(asked) == 2


def test_requests_after_one_that_closes_the_connection_are_not_served(
    lines: Wire, log: PartitionLog
) -> None:
    client = lines.connect()
    client.socket.send(b"V1|1|LIST|\n")
    lines.poller()
    [pending] = lines.slow

    pending.send(b"V1|1|OK\n", is_last=True)
    client.socket.send(PRODUCE)
    lines.poller()  # before the turn in which the connection is closed
    lines.run()

    assert log.log_end_offset == 0
    assert received(client) in (b"V1|1|OK\n", b"")
    assert client.is_closed


# ---- Python's share ------------------------------------------------------------------------------


class Python:
    """Records what is begun of the requests left to Python: one request a turn, and when."""

    def __init__(self, lines: Wire, protocol: v1.V1) -> None:
        """Be handed requests over."""
        self.waiting: list[PendingReply] = []
        self.begun: list[PendingReply] = []
        lines.poller.serve_with({"v1": protocol}, self._dispatch, lambda *_: None)

    def _dispatch(self, pending: list["PendingReply"]) -> bool:
        self.waiting += pending
        if self.waiting:
            self.begun.append(self.waiting.pop(0))
        return bool(self.waiting)


def test_native_responses_are_sent_before_python_handlers_start(
    lines: Wire, protocol: v1.V1, log: PartitionLog
) -> None:
    other = lines.connect()
    seen: list[bytes] = []

    def dispatch(_: object) -> None:
        seen.append(received(other))

    lines.poller.serve_with({"v1": protocol}, dispatch, lambda *_: None)
    slow = lines.connect()
    slow.socket.send(b"V1|1|LIST|\n")
    other.socket.send(PRODUCE)

    lines.poller()

    assert seen[0].count(b"|OK|") == 1
    assert log.log_end_offset == 1


def test_sockets_are_polled_between_the_requests_of_python(lines: Wire, protocol: v1.V1) -> None:
    python = Python(lines, protocol)
    for client in [lines.connect() for _ in range(50)]:
        client.socket.send(b"V1|1|LIST|\n")
    lines.poller()
    other = lines.connect()
    answers = 0
    while python.waiting:
        waiting = len(python.waiting)
        other.socket.send(PRODUCE)
        lines.poller.end()  # requests left to Python ask for it
        answers += received(other).count(b"|OK|")
        assert waiting - len(python.waiting) < 10

    assert len(python.begun) == 50
    assert answers >= 5


def test_requests_that_python_has_not_begun_schedule_a_turn(lines: Wire, protocol: v1.V1) -> None:
    python = Python(lines, protocol)
    for client in [lines.connect() for _ in range(50)]:
        client.socket.send(b"V1|1|LIST|\n")

    lines.run()

    assert len(python.begun) == 50
    assert python.waiting == []


def test_python_begins_requests_even_if_native_ones_use_every_turns_share(
    lines: Wire, protocol: v1.V1
) -> None:
    python = Python(lines, protocol)
    lines.poller.budget_us = 0
    flooding = [lines.connect() for _ in range(5)]
    for client in flooding:
        client.socket.send(4000 * PRODUCE)
    lines.connect().socket.send(b"V1|1|LIST|\n")

    for _ in range(20):
        lines.poller()
        lines.poller.end()

    assert all(received(client).count(b"|OK|") < 4000 for client in flooding)
    assert len(python.begun) == 1
