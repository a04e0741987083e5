"""A broker that may use 160 MiB more than when idle: attacks never get it killed."""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import cramjam
import pytest

from broker.codec import schema
from broker.model.limits import CURSUS_FRAME_BYTES_MAX
from tests.attacks import (
    connections,
    groups,
    other_protocols,
    partitions,
    producers,
    queries,
    records,
)
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.memory_group import MemoryGroup
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import CODECS, TIMESTAMP, Batch, varint

FETCH = 1
CURSUS_MAGIC = b"\xba\x7c"

MIB = 1 << 20
ROOM_BYTES = 160 * MIB
FRAME_BYTES = 16 * MIB
CONNECTIONS = 2_000
DEAF_READERS = 200
FETCHES_PER_READER = 50
HALF_FRAMES = 40
HONEST_BATCHES = 4
BEHIND_A_POLL_BYTES = 256 << 10
QUIET_SECONDS = 0.5  # after this long without progress nothing more is accepted
FLOODING_PRODUCERS = 8


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """Make a cgroup, or skip with the reason."""
    made = MemoryGroup()
    yield made
    made.remove()


@pytest.fixture
def broker(tmp_path: Path, group: MemoryGroup) -> Iterator[BrokerProcess]:
    """Start a broker in it, and limit it once it is idle."""
    made = BrokerProcess(tmp_path)
    made.wrap = group.entered_by
    group.limit(ROOM_BYTES)  # the memory it plans with
    made.start()
    group.limit(group.resident() + ROOM_BYTES)
    yield made
    assert made.is_running
    assert group.kills() == 0
    assert made.stop() == 0
    made.check()


def connect(address: str, held: ExitStack) -> socket.socket:
    host, _, port = address.rpartition(":")
    return held.enter_context(socket.create_connection((host, int(port)), 60.0))


def say_nothing(address: str, held: ExitStack) -> None:
    for _ in range(CONNECTIONS):
        connect(address, held)


def announce_frames_without_end(address: str, held: ExitStack) -> None:
    for size in (0x7FFFFFFF, -1, 0, 100 * MIB) * 50:
        with suppress(OSError):
            connect(address, held).sendall(struct.pack(">i", size) + b"\0\0\0\x09" * 8)


def announce_frames_and_send_little(address: str, held: ExitStack) -> None:
    for _ in range(CONNECTIONS // 4):
        connect(address, held).sendall(struct.pack(">i", FRAME_BYTES) + b"\0\0\0\x09\0\0\0\1")


def stall_inside_large_frames(address: str, held: ExitStack) -> None:
    head = struct.pack(">i", FRAME_BYTES) + b"\0\0\0\x09\0\0\0\1\xff\xff"
    half = head + bytes(FRAME_BYTES // 2)
    cursus_head = struct.pack(">I", CURSUS_FRAME_BYTES_MAX) + CURSUS_MAGIC
    unfinished = cursus_head + bytes(CURSUS_FRAME_BYTES_MAX - MIB)
    wanted = {connect(address, held): half for _ in range(HALF_FRAMES)}
    offer(wanted | {connect(address, held): unfinished for _ in range(HALF_FRAMES)})
    with WireClient(address) as honest:
        for _ in range(HONEST_BATCHES):
            batch = Batch([b"x" * 1_000_000]).encode()
            code, _ = wire_requests.produce(honest, "large", batch)
            assert code == 0


def pipeline_behind_long_polls(address: str, held: ExitStack) -> None:
    poll = wire_requests.fetch_body("polled", 0, 0, MIB) | {"max_wait_ms": 60_000}
    message = schema.request(FETCH)
    with WireClient(address) as any_client:
        polled = any_client.frame("Fetch", 11, message.encode(11, poll))
        asked = any_client.frame("ApiVersions", 0, b"")
    framed = struct.pack(">i", len(asked)) + asked
    behind = framed * (BEHIND_A_POLL_BYTES // len(framed))
    first = struct.pack(">i", len(polled)) + polled
    offer({connect(address, held): first + behind for _ in range(CONNECTIONS)})


def offer(wanted: dict[socket.socket, bytes]) -> None:
    """Send on all connections until none of them accepts more."""
    poll = select.poll()
    left: dict[int, tuple[socket.socket, memoryview]] = {}
    for each, data in wanted.items():
        each.setblocking(False)
        poll.register(each, select.POLLOUT)
        left[each.fileno()] = each, memoryview(data)
    while ready := poll.poll(QUIET_SECONDS * 1000):
        for number, _ in ready:
            each, rest = left[number]
            try:
                sent = each.send(rest[:MIB])
            except BlockingIOError:
                sent = 0
            except ConnectionError:
                sent = len(rest)  # the broker has closed it
            left[number] = each, rest[sent:]
            if sent == len(rest):
                poll.unregister(number)


def claim_two_thousand_million_elements(address: str, held: ExitStack) -> None:
    for _ in range(50):
        with suppress(ConnectionClosedError):
            client = held.enter_context(WireClient(address))
            client.send_frame(client.frame("Metadata", 1, b"\x7f\xff\xff\xff" + bytes(60)))


def compress_bombs(address: str, held: ExitStack) -> None:
    client = held.enter_context(WireClient(address))
    size = 192 * MIB
    body = b"\x00\x00\x00\x01" + varint(size) + bytes(size) + b"\x00"
    for codec, compress in (("lz4", cramjam.lz4.compress), ("zstd", cramjam.zstd.compress)):
        payload = bytes(compress(varint(len(body)) + body))
        bomb = Batch([b""], payload=payload, attributes=CODECS[codec]).encode()
        assert len(bomb) < MIB
        wire_requests.produce(client, "large", bomb)
        wire_requests.list_offset(client, "large", 0, TIMESTAMP)  # what decompresses it


def read_no_reply(address: str, held: ExitStack) -> None:
    with WireClient(address) as filler:
        for _ in range(16):
            code, _ = wire_requests.produce(filler, "read", Batch([b"x" * 1_000_000]).encode())
            assert code == 0
    body = wire_requests.fetch_body("read", 0, 0, FRAME_BYTES)
    for _ in range(DEAF_READERS):
        deaf = held.enter_context(WireClient(address, 1.0))
        with suppress(TimeoutError, ConnectionClosedError):
            for _ in range(FETCHES_PER_READER):
                deaf.send("Fetch", 11, body)


def produce_without_waiting(address: str, held: ExitStack) -> None:
    """Send more than the disk can write: many large batches of many producers; read no response."""
    body = wire_requests.produce_body("large", [(0, Batch([b"x" * 1_000_000]).encode())])
    end = time.monotonic() + 3.0

    def flood(client: WireClient) -> None:
        with suppress(OSError, ConnectionClosedError):
            while time.monotonic() < end:
                client.send("Produce", wire_requests.PRODUCE_VERSION, body)

    clients = [held.enter_context(WireClient(address, 3.0)) for _ in range(FLOODING_PRODUCERS)]
    threads = [threading.Thread(target=flood, args=(each,)) for each in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


FAMILIES: dict[str, Sequence[Callable[[str, ExitStack], object]]] = {
    "frames": [
        announce_frames_without_end,
        announce_frames_and_send_little,
        stall_inside_large_frames,
        pipeline_behind_long_polls,
        claim_two_thousand_million_elements,
        compress_bombs,
    ],
    "connections": [say_nothing, *connections.ATTACKS, read_no_reply, produce_without_waiting],
    "groups": groups.ATTACKS,
    "questions": queries.ATTACKS,
    "producers": producers.ATTACKS,
    "partitions": partitions.ATTACKS,
    "records": records.ATTACKS,
    "other protocols": other_protocols.ATTACKS,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_attack_kills_the_broker_and_other_clients_are_served(
    broker: BrokerProcess, family: str, request: pytest.FixtureRequest
) -> None:
    with WireClient(broker.address) as good:
        wire_requests.create_topic(good, "good")
        for topic in ("large", "read", "polled"):
            wire_requests.create_topic(good, topic)
        written = 0
        for _ in range(request.config.getoption("--attack-rounds")):
            for attack in FAMILIES[family]:
                with ExitStack() as held:
                    attack(broker.address, held)
                    answer = wire_requests.produce(good, "good", Batch([b"a"]).encode())
                    assert answer == (0, written), attack
                    wire_requests.assert_serves(broker.address)
                written += 1
