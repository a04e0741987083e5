"""The memory of incomplete frames and waiting requests, and what continues when it is short."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker._native.log.commit import CommitThread
from broker.model.limits import ORDINARY_FRAME_BYTES_MAX, RECEIVE_BYTES_PER_TURN
from tests.support.native_log import Logs, records
from tests.support.native_wire import API_VERSIONS, HEAD, Client, Wire, fetch, produce

KIB = 1 << 10
MIB = 1 << 20
ROOM_BYTES = 2 * MIB
HEAD_BYTES = 4 * KIB
AT_ONCE_MS = -1
NEVER_MS = 10**9
LONG_MS = 600_000  # longer than a test waits
REASON = "stalled inside a frame, and others wait for its memory"
FRAME = produce(9, (0, records(size=600_000)))
LONG_FRAME = produce(9, *((place, records(size=800_000)) for place in range(3)))
assert len(FRAME) < ORDINARY_FRAME_BYTES_MAX < len(LONG_FRAME)
SMALL_FRAME = produce(9, (0, records(size=1_000)))


@pytest.fixture
def narrow(wire: Wire) -> Wire:
    """A poller whose connections may keep little."""
    wire.poller.input_bytes_max = ROOM_BYTES
    return wire


def offer(client: Client, data: bytes) -> int:
    """Send what the broker accepts; return how many bytes that are."""
    taken = 0
    while taken < len(data):
        client.wire.run()
        try:
            taken += client.socket.send(data[taken:])
        except BlockingIOError:
            break
    client.wire.run()
    return taken


def stall(wire: Wire, frame: bytes = FRAME) -> list[Client]:
    """Let clients send all of a frame but its end, until there is no memory for another one."""
    clients = []
    while wire.poller.input_bytes <= wire.poller.input_bytes_max - HEAD_BYTES:
        clients.append(wire.connect())
        offer(clients[-1], frame[:-1])
        assert len(clients) < 100
    return clients


def stall_and_queue(wire: Wire, frame: bytes = FRAME) -> list[Client]:
    """Do the same until the last client waits, queued after one that may continue."""
    clients = stall(wire, frame)
    while not wire.poller.waiting_for_memory:
        clients.append(wire.connect())
        offer(clients[-1], frame[:-1])
        assert len(clients) < 100
    return clients


# ---- what is counted ----------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [FRAME, LONG_FRAME, SMALL_FRAME], ids=len)
def test_an_incomplete_frame_counts_until_it_is_complete(client: Client, frame: bytes) -> None:
    client.send(frame[:-10])
    assert len(frame) - 10 <= client.wire.poller.input_bytes <= 2 * len(frame)

    client.send(frame[-10:])

    assert client.frame()
    assert client.wire.poller.input_bytes == 0


def test_announced_bytes_that_have_not_arrived_are_not_counted(client: Client) -> None:
    client.send(LONG_FRAME[:100])

    assert client.wire.poller.input_bytes == 100


def test_a_reused_buffer_counts_with_its_whole_size(wire: Wire, client: Client) -> None:
    offer(client, LONG_FRAME)
    assert client.frame()

    client.send(LONG_FRAME[: 2 * HEAD_BYTES])

    assert wire.poller.input_bytes > len(LONG_FRAME)


def test_requests_queued_behind_a_waiting_one_count_until_they_are_served(
    wire: Wire, client: Client
) -> None:
    client.send(fetch(11, (0, 0), max_wait_ms=LONG_MS) + 10 * SMALL_FRAME)
    assert wire.poller.input_bytes >= 10 * len(SMALL_FRAME)

    wire.connect().send(SMALL_FRAME)  # what the fetch waits for

    assert len(client.wait_frames(11)) == 11
    assert wire.poller.input_bytes == 0


def test_buffers_of_disconnected_clients_are_no_longer_counted(narrow: Wire) -> None:
    clients = stall_and_queue(narrow)
    polling = narrow.connect()
    polling.send(fetch(11, (0, 1000), max_wait_ms=LONG_MS))

    for client in [*clients, polling]:
        client.socket.close()
        narrow.run()

    assert narrow.poller.input_bytes == narrow.poller.waiting_for_memory == 0


# ---- which frames continue
# ------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [FRAME, LONG_FRAME], ids=len)
def test_stalled_frames_take_limited_memory(narrow: Wire, frame: bytes) -> None:
    clients = [narrow.connect() for _ in range(40)]
    for client in clients:
        offer(client, frame[:-1])

    heads = len(clients) * HEAD_BYTES
    most = ROOM_BYTES + 2 * MIB + len(LONG_FRAME) + RECEIVE_BYTES_PER_TURN + heads
    assert ROOM_BYTES / 2 < narrow.poller.input_bytes < most


def test_requests_queued_behind_waiting_ones_take_limited_memory(narrow: Wire) -> None:
    clients = [narrow.connect() for _ in range(100)]
    for client in clients:
        poll = fetch(11, (0, 0), max_wait_ms=LONG_MS)
        client.socket.send(poll + 60 * SMALL_FRAME)
    narrow.run()

    most = ROOM_BYTES + RECEIVE_BYTES_PER_TURN + len(clients) * HEAD_BYTES
    assert ROOM_BYTES / 2 < narrow.poller.input_bytes < most

    narrow.connect().send(SMALL_FRAME)
    for client in clients:
        assert len(client.wait_frames(61)) == 61


def test_frames_are_read_one_after_another_while_stalled_ones_hold_the_memory(
    narrow: Wire,
) -> None:
    stall(narrow)
    honest = [narrow.connect() for _ in range(3)]
    taken = [offer(client, FRAME[: 8 * HEAD_BYTES]) for client in honest]
    assert narrow.poller.waiting_for_memory == 2

    for client, start in zip(honest, taken, strict=True):
        assert start + offer(client, FRAME[start:]) == len(FRAME)
        assert client.frame()
    assert narrow.poller.waiting_for_memory == 0


def test_frames_of_common_size_do_not_wait_for_stalled_large_ones(narrow: Wire) -> None:
    stall_and_queue(narrow, LONG_FRAME)
    waiting = narrow.poller.waiting_for_memory

    for _ in range(3):
        client = narrow.connect()
        assert offer(client, FRAME) == len(FRAME)
        assert client.frame()
    assert narrow.poller.waiting_for_memory == waiting == 1


def test_short_requests_are_served_while_memory_is_exhausted(narrow: Wire) -> None:
    stall_and_queue(narrow)
    client = narrow.connect()

    client.send(20 * SMALL_FRAME)

    assert len(client.wait_frames(20)) == 20
    assert narrow.poller.waiting_for_memory == 1


def test_requests_behind_ones_that_python_has_take_no_memory_while_it_is_exhausted(
    narrow: Wire,
) -> None:
    stall_and_queue(narrow)
    before = narrow.poller.input_bytes
    clients = [narrow.connect() for _ in range(40)]
    for client in clients:
        offer(client, asked(5_000) + asked(140_000))

    assert narrow.poller.input_bytes - before < ROOM_BYTES / 2 + len(clients) * 2 * HEAD_BYTES


def test_a_waiting_frame_continues_when_memory_is_free_again(narrow: Wire) -> None:
    stalled = stall_and_queue(narrow)
    waiting = narrow.connect()
    taken = offer(waiting, FRAME)
    assert taken < len(FRAME)

    for client in stalled:
        client.close()
    assert narrow.poller.waiting_for_memory == 0

    offer(waiting, FRAME[taken:])
    assert waiting.frame()


def test_a_waiting_client_that_disconnects_is_forgotten(narrow: Wire) -> None:
    waiting = stall_and_queue(narrow)[-1]

    waiting.close()

    assert narrow.poller.waiting_for_memory == 0
    assert narrow.closed == ["closed by the peer"]


@pytest.mark.parametrize("frame", [FRAME, LONG_FRAME], ids=len)
def test_many_large_frames_that_arrive_at_once_are_all_served(narrow: Wire, frame: bytes) -> None:
    taken = dict.fromkeys((narrow.connect() for _ in range(30)), 0)
    most_waiting = 0
    while min(taken.values()) < len(frame):
        before = sum(taken.values())
        for client, start in taken.items():
            taken[client] += offer(client, frame[start : start + 100_000])
        most_waiting = max(most_waiting, narrow.poller.waiting_for_memory)
        assert sum(taken.values()) > before, "no frame makes progress"

    for client in taken:
        assert client.frame()
    assert most_waiting > 10
    assert narrow.poller.input_bytes == 0


# ---- which connections are closed
# -----------------------------------------------------------------


def test_stalled_frames_are_closed_when_others_wait_for_their_memory(narrow: Wire) -> None:
    *holding, waiting = stall_and_queue(narrow)

    narrow.poller.close_stalled_frames(AT_ONCE_MS)
    narrow.run()

    assert narrow.closed == [REASON] * len(holding)
    assert not waiting.is_closed
    assert narrow.poller.waiting_for_memory == 0


def test_stalled_frames_are_left_alone_when_nobody_waits(narrow: Wire) -> None:
    stall(narrow)

    narrow.poller.close_stalled_frames(AT_ONCE_MS)

    assert narrow.closed == []


def test_stalled_frames_are_not_closed_before_the_timeout_even_when_others_wait(
    narrow: Wire,
) -> None:
    stall_and_queue(narrow)

    narrow.poller.close_stalled_frames(NEVER_MS)

    assert narrow.closed == []
    assert narrow.poller.waiting_for_memory == 1


def test_a_frame_that_waits_for_memory_is_not_stalled(narrow: Wire) -> None:
    *holding, waiting = stall_and_queue(narrow)

    narrow.poller.sweep(AT_ONCE_MS, AT_ONCE_MS, AT_ONCE_MS)

    assert narrow.closed == ["stalled inside a frame"] * len(holding)
    assert not waiting.is_closed


def test_frame_headers_and_waiting_requests_are_not_closed_for_memory(narrow: Wire) -> None:
    head, polling = narrow.connect(), narrow.connect()
    head.send(FRAME[: HEAD_BYTES // 2])
    polling.send(fetch(11, (0, 1000), max_wait_ms=LONG_MS) + 10 * SMALL_FRAME)
    stall_and_queue(narrow)

    narrow.poller.close_stalled_frames(AT_ONCE_MS)

    assert not head.is_closed
    assert not polling.is_closed


# ---- random sequences ----------------------------------------------------------------------------


def asked(size: int) -> bytes:
    """Return a request of that many bytes that Python answers."""
    body = bytes(size - HEAD.size)
    return HEAD.pack(size - 4, API_VERSIONS, 0, 0, 4, b"test") + body


CLIENTS = 6
FRAMES = st.lists(
    st.sampled_from([30, 3_000, 5_000, 20_000, 40_000, 120_000]), min_size=1, max_size=5
)
SIZES = {"a byte": 1, "some": 4_500, "much": 150_000}
# Frames are held in buffers whose sizes are powers of two.
BUFFER_BYTES_MAX = 1 << (max(SIZES.values()) - 1).bit_length()
STEPS = st.lists(
    st.tuples(
        st.integers(0, CLIENTS - 1),
        st.sampled_from([*SIZES, "much", "answer", "close", "sweep"]),
    ),
    max_size=60,
)
COMMIT = CommitThread(1)  # of polls without a log: it does nothing


@given(st.lists(FRAMES, min_size=CLIENTS, max_size=CLIENTS), STEPS)
@example(
    [[120_000], [30], [30], [30], [5_000, 20_000], [5_000, 20_000, 120_000]],
    [(0, "some"), (4, "much"), (5, "much")],
)
@example(
    [[5_000], [5_000], [120_000], [30], [5_000], [30]],
    [(2, "much"), (2, "close"), (3, "close"), (5, "close")],
)
@example(
    [[5_000], [5_000], [120_000, 120_000], [30], [120_000], [30]],
    [(3, "close"), (4, "much"), (4, "close"), (5, "close")],
)
@example(
    [[120_000], [5_000, 20_000, 120_000], [30], [30], [5_000, 20_000, 120_000], [30]],
    [(0, "some"), (1, "much"), (4, "much")],
)
@settings(max_examples=100, deadline=None)
def test_any_sequence_of_clients_is_served_and_leaves_nothing_counted(
    frames: list[list[int]], steps: list[tuple[int, str]]
) -> None:
    with closing(Wire(Logs(Path(), COMMIT))) as wire:
        play(wire, frames, steps)


def play(wire: Wire, frames: list[list[int]], steps: list[tuple[int, str]]) -> None:
    """Take the steps, then have all who are still there finish."""
    wire.poller.input_bytes_max = 100_000
    clients = [wire.connect() for _ in range(CLIENTS)]
    left = [b"".join(map(asked, sizes)) for sizes in frames]
    for place, step in steps:
        client = clients[place]
        if step == "answer":
            answer(wire)
        elif step == "sweep":
            wire.poller.close_stalled_frames(NEVER_MS)
        elif step == "close":
            client.socket.close()
            left[place] = b""
            wire.run()
        elif client.socket.fileno() >= 0:
            size = SIZES[step]
            left[place] = left[place][offer(client, left[place][:size]) :]
        assert wire.poller.input_bytes < 100_000 + 2 * BUFFER_BYTES_MAX + CLIENTS * HEAD_BYTES

    staying = [place for place in range(CLIENTS) if clients[place].socket.fileno() >= 0]
    answered = dict.fromkeys(staying, 0)
    stuck = 0
    while any(left) or wire.slow or wire.poller.waiting_for_memory:
        before = sum(map(len, left))
        for place in staying:
            left[place] = left[place][offer(clients[place], left[place]) :]
        stuck = 0 if sum(map(len, left)) < before or wire.slow else stuck + 1
        assert stuck < 3, "nobody gets on"
        answer(wire)
        # As the broker does every second: requests of clients that have gone end outside of a turn.
        wire.poller.close_stalled_frames(NEVER_MS)
        wire.run()
    for place in staying:
        answered[place] = len(clients[place].frames())

    assert answered == {place: len(frames[place]) for place in staying}
    assert wire.poller.input_bytes == wire.poller.waiting_for_memory == 0
    assert len(wire.closed) == CLIENTS - len(staying)


def answer(wire: Wire) -> None:
    """Answer the requests left to Python."""
    asked, wire.slow[:] = wire.slow[:], []
    for pending in asked:
        pending.send(b"")
    wire.run()


# ---- requests that wait for Python ---------------------------------------------------------------


def test_requests_count_until_python_takes_them(wire: Wire, client: Client) -> None:
    client.send(asked(5_000))
    [pending] = wire.slow
    assert 5_000 - HEAD.size <= wire.poller.input_bytes <= 5_000

    assert len(pending.take_body()) == 5_000 - HEAD.size
    assert wire.poller.input_bytes == 0

    pending.send(b"")
    wire.run()
    assert len(client.frames()) == 1


def test_requests_of_closed_connections_are_no_longer_counted(wire: Wire, client: Client) -> None:
    client.send(asked(5_000))
    client.close()

    wire.slow.clear()

    assert wire.poller.input_bytes == 0


def test_requests_that_python_has_not_taken_are_limited_and_no_connection_is_closed(
    narrow: Wire,
) -> None:
    clients = [narrow.connect() for _ in range(60)]
    left = dict.fromkeys(clients, asked(200_000))
    for client in clients:
        left[client] = left[client][offer(client, left[client]) :]
    most = ROOM_BYTES + len(FRAME) + RECEIVE_BYTES_PER_TURN + len(clients) * HEAD_BYTES
    assert narrow.poller.input_bytes < most
    short = narrow.connect()
    short.send(asked(1_000))
    assert len(narrow.slow[-1].body) == 1_000 - HEAD.size

    answered = 0
    while narrow.slow:
        answered += len(narrow.slow)
        answer(narrow)
        for client in clients:
            left[client] = left[client][offer(client, left[client]) :]

    assert answered == len(clients) + 1
    assert narrow.closed == []
    assert narrow.poller.input_bytes == narrow.poller.waiting_for_memory == 0
