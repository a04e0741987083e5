"""Unread responses: the memory for them over all connections is limited."""

from broker.model.limits import REPLY_MEMORY_BYTES_MAX, REPLY_MEMORY_SCARCE_BYTES
from tests.support.native_wire import API_VERSIONS, Client, Wire, request

REPLY_BYTES = 2_000_000
FRAME_BYTES = 4 + 4 + REPLY_BYTES  # after its size and the correlation id
ASK = request(API_VERSIONS, 0, {})
SHED = "does not read its replies, and others need the memory"


def answered(wire: Wire) -> Client:
    """Return a new connection with a long response that it has not read."""
    client = wire.connect()
    client.send(ASK)
    wire.slow.pop().send(bytes(REPLY_BYTES))
    wire.run()
    return client


def test_connections_that_left_responses_unread_longest_are_closed_first(wire: Wire) -> None:
    count = REPLY_MEMORY_BYTES_MAX // REPLY_BYTES
    clients = [answered(wire) for _ in range(2 * count)]

    assert set(wire.closed) == {SHED}
    assert len(clients) - len(wire.closed) in range(count - 1, count + 4)
    is_closed = [client.is_closed for client in clients]
    assert is_closed == sorted(is_closed, reverse=True)
    assert len(clients[-1].frame()) == FRAME_BYTES


def test_a_single_response_above_the_whole_limit_is_still_sent(wire: Wire) -> None:
    others = [answered(wire) for _ in range(2)]
    client = wire.connect()
    client.send(ASK)
    wire.slow.pop().send(bytes(2 * REPLY_MEMORY_BYTES_MAX))

    [frame] = client.wait_frames(1)

    assert len(frame) == 8 + 2 * REPLY_MEMORY_BYTES_MAX
    assert wire.closed == [SHED] * len(others)


def test_while_reply_memory_is_scarce_connections_with_unread_responses_are_not_served(
    wire: Wire,
) -> None:
    clients = [answered(wire) for _ in range(1 + REPLY_MEMORY_SCARCE_BYTES * 5 // 4 // REPLY_BYTES)]

    clients[0].send(ASK)
    assert not wire.slow
    assert len(clients[0].frame()) == FRAME_BYTES
    wire.run()

    assert len(wire.slow) == 1
    assert not wire.closed


def test_while_reply_memory_is_scarce_connections_without_unread_responses_are_served(
    wire: Wire,
) -> None:
    reader = wire.connect()
    held = [answered(wire) for _ in range(1 + REPLY_MEMORY_SCARCE_BYTES * 5 // 4 // REPLY_BYTES)]

    reader.send(ASK)

    assert held
    assert len(wire.slow) == 1


def test_responses_that_were_read_or_dropped_are_no_longer_counted(wire: Wire) -> None:
    count = REPLY_MEMORY_BYTES_MAX // REPLY_BYTES - 1
    for _ in range(3):
        for client in [answered(wire) for _ in range(count)]:
            client.socket.close()
        wire.run()
    for _ in range(3):
        for client in [answered(wire) for _ in range(count)]:
            client.frame()

    assert SHED not in wire.closed
