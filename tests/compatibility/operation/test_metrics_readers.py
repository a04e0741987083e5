"""Readers of long pages who do not read, or read slowly: memory is bounded, others are served."""

import contextlib
import http.client
import socket
import time
from collections.abc import Callable

import pytest

from broker.model.http_limits import HTTP_JOINED_BYTES_MAX, HTTP_PAGES_BYTES_MAX
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

PARTITIONS = 3_000
READERS = 60
SLACK_BYTES = 48 << 20  # pages that are made and kept for a second, and the heap's rest
REQUEST = b"GET /metrics/all HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(broker: BrokerProcess) -> socket.socket:
    """Return a connection whose kernel takes little."""
    host, _, port = broker.address.rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(60)
    made.connect((host, int(port)))
    return made


def page(broker: BrokerProcess) -> tuple[int, int, str | None]:
    """Read a page; return its status, its size and when to come back."""
    host, _, port = broker.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics/all")
        answer = connection.getresponse()
        size = len(answer.read())
        assert int(answer.headers["Content-Length"]) == size
        return answer.status, size, answer.headers["Retry-After"]


@pytest.fixture
def wide(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker with a long page."""
    broker = start_broker()
    with WireClient(broker.address) as client:
        create_topic(client, "a-topic-with-a-long-name-that-makes-pages-longer", PARTITIONS)
    assert page(broker)[1] > 8 * HTTP_JOINED_BYTES_MAX
    return broker


def test_readers_who_do_not_read_hold_little_memory_and_delay_nobody(wide: BrokerProcess) -> None:
    before = wide.resident_memory()
    with contextlib.ExitStack() as readers:
        for _ in range(READERS):
            reader = readers.enter_context(connect(wide))
            reader.sendall(REQUEST)
        ends = time.monotonic() + 3  # a page is kept for one second: they get several
        while time.monotonic() < ends:
            with WireClient(wide.address) as client:
                assert client.request("ApiVersions", 0, {})["error_code"] == 0
            reader = readers.enter_context(connect(wide))
            reader.sendall(REQUEST)
            time.sleep(0.2)

        assert wide.resident_memory() - before < HTTP_PAGES_BYTES_MAX + SLACK_BYTES
        status, size, _ = page(wide)
        assert (status, size > 8 * HTTP_JOINED_BYTES_MAX) == (200, True)


def test_a_slow_reader_gets_the_whole_page(wide: BrokerProcess) -> None:
    with connect(wide) as reader:
        reader.sendall(REQUEST)
        received = bytearray()
        while part := reader.recv(1 << 16):
            received += part

    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert body.count(b"\npolylog_log_end_offset{") == PARTITIONS


def test_a_client_that_has_ended_its_side_gets_the_whole_page(wide: BrokerProcess) -> None:
    with connect(wide) as reader:
        reader.sendall(REQUEST)
        reader.shutdown(socket.SHUT_WR)
        received = bytearray()
        while part := reader.recv(1 << 16):
            received += part

    assert received.count(b"\npolylog_log_end_offset{") == PARTITIONS


def test_a_reader_who_leaves_in_the_middle_is_forgotten(wide: BrokerProcess) -> None:
    files = wide.open_files()
    for _ in range(10):
        with connect(wide) as reader:
            reader.sendall(REQUEST)
            assert reader.recv(1024)

    wait_until(lambda: wide.open_files() <= files, "they are closed")
    assert page(wide)[0] == 200
