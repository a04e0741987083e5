"""Readers of long pages who do not read, or read slowly: memory is bounded, others are served."""

import contextlib
import http.client
import socket
import time
from collections.abc import Callable

from broker.model.http_limits import HTTP_JOINED_BYTES_MAX, HTTP_PAGES_BYTES_MAX
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

PARTITIONS = 2_000
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


def page(broker: BrokerProcess) -> tuple[int, int]:
    """Read a page; return its status and its size."""
    host, _, port = broker.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics/all")
        answer = connection.getresponse()
        size = len(answer.read())
        assert int(answer.headers["Content-Length"]) == size
        return answer.status, size


def test_readers_who_do_not_read_hold_little_memory_and_delay_nobody(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        create_topic(client, "a-topic-with-a-long-name-that-makes-pages-longer", PARTITIONS)
    assert page(broker)[1] > 8 * HTTP_JOINED_BYTES_MAX
    before, files = broker.resident_memory(), broker.open_files()
    with contextlib.ExitStack() as readers:
        reader = readers.enter_context(connect(broker))
        reader.sendall(REQUEST)
        for _ in range(READERS):
            readers.enter_context(connect(broker)).sendall(REQUEST)
        ends = time.monotonic() + 3  # a page is kept for one second: they get several
        while time.monotonic() < ends:
            with WireClient(broker.address) as client:
                assert client.request("ApiVersions", 0, {})["error_code"] == 0
            readers.enter_context(connect(broker)).sendall(REQUEST)
            time.sleep(0.2)

        assert broker.resident_memory() - before < HTTP_PAGES_BYTES_MAX + SLACK_BYTES
        assert page(broker)[0] == 200
        assert whole_page(reader).count(b"\npolylog_log_end_offset{") == PARTITIONS

    wait_until(lambda: broker.open_files() <= files, "those who left are forgotten")


def whole_page(reader: socket.socket) -> bytes:
    """Return the page that a reader has asked for, which it reads at last."""
    received = bytearray()
    while part := reader.recv(1 << 16):
        received += part
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    return body
