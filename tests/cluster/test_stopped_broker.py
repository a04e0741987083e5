"""A broker that was stopped past its lease acknowledges nothing of what it had begun before."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.etcd import Etcd
from tests.support.native_wire import PRODUCE, SIZE, response
from tests.support.wire_client import TIMEOUT_S, WireClient
from tests.support.wire_records import Batch, ReadBatch, read_batches
from tests.support.wire_requests import (
    PRODUCE_VERSION,
    create_topic,
    end_offset,
    fetch,
    is_led,
    produce,
    produce_body,
    produced,
)

pytestmark = pytest.mark.etcd

CONNECTIONS = 4
BURST = 1_000  # requests of each connection
RETRIABLE = {3, 6, 74, 75}  # unknown topic or partition, not leader, leader epochs
SESSION_MS = 2_000  # the shortest


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    running = Etcd(tmp_path / "etcd")
    yield running
    running.close()


@pytest.fixture
def broker(tmp_path: Path, etcd: Etcd) -> Iterator[BrokerProcess]:
    store = ",".join(str(each) for each in etcd.endpoints)
    settings = (
        "node.id=1",
        f"broker.session.timeout.ms={SESSION_MS}",
        f"polylog.metadata.store=etcd://{store}/stopped",
    )
    (tmp_path / "broker").mkdir()
    running = BrokerProcess(tmp_path / "broker", settings=settings)
    running.expected_complaints = ["lease lost"]
    running.start()
    yield running
    if running.is_running:
        running.signal(signal.SIGCONT)
        running.stop()


def registration(etcd: Etcd) -> int | None:
    """Return the broker epoch that the store has of broker 1; None while it is not registered."""

    async def look() -> int | None:
        store = EtcdMetaStore(Gateway(etcd.endpoints), b"stopped/")
        try:
            entry = await store.get(b"broker/1")
        finally:
            await store.close()
        return None if entry is None else entry.create_revision

    return asyncio.run(look())


def is_controller(client: WireClient) -> bool:
    """Return whether the broker knows that it is the controller."""
    found = client.request("Metadata", 9, {"topics": [], "allow_auto_topic_creation": False})
    return bool(found["controller_id"] == 1)


def is_stopped(broker: BrokerProcess) -> bool:
    """Return whether the kernel has stopped every thread of the process."""
    tasks = Path(f"/proc/{broker.process.pid}/task").glob("*/stat")
    return all(each.read_text().rpartition(")")[2].split()[0] == "T" for each in tasks)


def unsent_bytes(client: socket.socket) -> int:
    """Return the bytes that the other end of a connection has sent, and this end has not got."""
    ports = [f":{name[1]:04X}" for name in (client.getpeername(), client.getsockname())]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if [local[-5:], remote[-5:]] == ports:
            return int(queues.split(":")[0], 16)
    raise AssertionError("the broker is stopped and has closed its connection")


class Producer:
    """A connection with many requests in flight, each of one record.

    Attributes:
        acknowledged: the values of records by the offset that their answer has named.
        refused: how many have got a retriable error.
        is_closed: the broker has closed the connection.
    """

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self._client = WireClient(broker.address)
        self._name = name
        self._received = bytearray()
        self._values: list[bytes] = []  # of all requests, in order
        self._answered = 0
        self.acknowledged: dict[int, bytes] = {}
        self.refused = 0
        self.is_closed = False

    def prepare(self, count: int) -> bytes:
        """Return further requests."""
        frames = b""
        for _ in range(count):
            value = f"{self._name}-{len(self._values)}".encode()
            self._values.append(value)
            body = produce_body("t", [(0, Batch(values=[value]).encode())])
            frame = self._client.encoded("Produce", PRODUCE_VERSION, body)
            frames += SIZE.pack(len(frame)) + frame
        return frames

    def send(self, frames: bytes) -> None:
        self._client.send_bytes(frames)

    def receive_some(self) -> None:
        """Receive the first answers."""
        while not self.acknowledged:
            self._receive()

    def receive_sent(self) -> None:
        """Receive what the stopped broker has sent, and no more."""
        wait_until(self._has_received_sent, "the kernel has delivered what was sent")

    def _has_received_sent(self) -> bool:
        # What the process has sent may still be in its socket while this one was full.
        is_delivered = unsent_bytes(self._client.socket) == 0
        self._client.socket.setblocking(False)
        with suppress(BlockingIOError):
            while not self.is_done:
                self._receive()
        self._client.socket.settimeout(TIMEOUT_S)
        return is_delivered

    def receive_all(self) -> None:
        """Receive an answer to each request, unless the broker closes the connection."""
        while not self.is_done:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._client.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.is_closed = not data
        self._received += data
        while len(self._received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            self._take(bytes(self._received[:end]))
            del self._received[:end]

    def _take(self, frame: bytes) -> None:
        _, body = response(PRODUCE, PRODUCE_VERSION, frame)
        error, offset = produced(body)
        if error == 0:
            self.acknowledged[offset] = self._values[self._answered]
        else:
            assert error in RETRIABLE, error
            self.refused += 1
        self._answered += 1

    @property
    def is_done(self) -> bool:
        return self.is_closed or self._answered == len(self._values)

    def close(self) -> None:
        self._client.close()


def read_all(client: WireClient) -> dict[int, ReadBatch]:
    """Return all batches of the partition by their offset."""
    found: dict[int, ReadBatch] = {}
    end = end_offset(client, "t")
    while len(found) < end:
        for each in read_batches(fetch(client, "t", 0, len(found))):
            found[each.base_offset] = each
    return found


def test_a_broker_stopped_past_its_lease_acknowledges_nothing_that_it_had_begun_before(
    broker: BrokerProcess, etcd: Etcd
) -> None:
    with WireClient(broker.address) as client:
        wait_until(lambda: is_controller(client), "it is in its own image")
        create_topic(client, "t")
    before = registration(etcd)
    assert before is not None
    producers = [Producer(broker, f"p{number}") for number in range(CONNECTIONS)]
    bursts = [each.prepare(BURST) for each in producers]
    for each, burst in zip(producers, bursts, strict=True):
        each.send(burst)
    producers[0].receive_some()

    # In the middle of the others: some are read, some appended, some durable, some answered.
    broker.signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(broker), "every thread is stopped")
    acknowledged: dict[int, bytes] = {}
    for each in producers:
        each.receive_sent()
        acknowledged |= each.acknowledged
        each.acknowledged = {}
        each.send(each.prepare(10))
    assert acknowledged
    wait_until(lambda: registration(etcd) is None, "the lease has expired")
    broker.signal(signal.SIGCONT)
    for each in producers:
        each.receive_all()
        each.close()

    wait_until(lambda: registration(etcd) not in {None, before}, "it has registered anew")
    with WireClient(broker.address) as client:
        wait_until(lambda: is_led(client, "t", 1), "its log can be read")
        offsets: list[int] = []

        def is_elected() -> bool:
            error, offset = produce(client, "t", Batch(values=[b"last"]).encode())
            assert error in {0, *RETRIABLE}, error
            offsets.append(offset)
            return error == 0

        wait_until(is_elected, "it has been elected anew, and service resumes by itself")
        offset = offsets[-1]
        batches = read_all(client)
    assert batches[offset].leader_epoch == 1
    # What was appended as the leader of the first election was acknowledged before the stop, or
    # never: by then another broker could have led the partition.
    for each in producers:
        epochs = {batches[offset].leader_epoch for offset in each.acknowledged}
        assert epochs <= {1}, f"{len(each.acknowledged)} acknowledged after the lease"
    assert all(each.is_closed or each.refused for each in producers)
    for offset, value in acknowledged.items():
        assert batches[offset].values == [value], "an acknowledged record is lost"
