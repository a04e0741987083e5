"""Long pages: what is unsent of each reader is bounded, and the parts are those of one page."""

import gc
import socket
import weakref

import pytest

from broker._native.protocols.http.page_stream import PageStream
from broker._native.protocols.http.protocol import Http
from broker.model.http_limits import HTTP_UNSENT_BYTES_MAX
from broker.model.long_page import LongPage
from tests.support.native_wire import Client, Wire

PART_BYTES = 50_000
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@pytest.fixture
def reader(wire: Wire) -> Client:
    """A connection that has asked for a page, and whose kernel takes little."""
    wire.poller.serve_with(
        {"http": Http(None)}, wire.slow.extend, lambda _, reason: wire.closed.append(reason)
    )
    client = wire.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.socket.sendall(REQUEST)
    wire.run()
    return client


def long_page(parts: int) -> LongPage:
    return LongPage(tuple(bytes([place % 251]) * PART_BYTES for place in range(parts)))


def answer(wire: Wire, page: LongPage) -> None:
    pending = wire.slow.pop()
    pending.take_body()
    pending.begin(PageStream(HEAD, page))
    wire.run()


def read_all(wire: Wire, client: Client) -> bytes:
    received = bytearray()
    while True:
        try:
            part = client.socket.recv(1 << 20)
        except BlockingIOError:
            wire.run()
            continue
        if not part:
            return bytes(received)
        received += part
        wire.run()


def test_a_reader_gets_the_whole_page_and_its_connection_closes(wire: Wire, reader: Client) -> None:
    page = long_page(60)

    answer(wire, page)

    assert read_all(wire, reader) == HEAD + b"".join(page.parts)
    assert wire.closed == ["closed after its last reply"]


def test_of_a_page_that_is_not_read_little_is_in_memory(wire: Wire, reader: Client) -> None:
    answer(wire, long_page(60))

    assert 0 < wire.poller.reply_memory_bytes <= HTTP_UNSENT_BYTES_MAX + PART_BYTES + len(HEAD)
    assert wire.closed == []


def test_a_reader_that_leaves_holds_the_page_no_more(wire: Wire, reader: Client) -> None:
    page = long_page(60)
    held = weakref.ref(page)
    answer(wire, page)
    del page
    gc.collect()
    assert held() is not None

    reader.socket.close()
    wire.run()

    assert held() is None
    assert wire.poller.reply_memory_bytes == 0


def test_a_client_that_has_ended_its_side_gets_the_page(wire: Wire, reader: Client) -> None:
    page = long_page(60)
    reader.socket.shutdown(socket.SHUT_WR)
    wire.run()

    answer(wire, page)

    assert read_all(wire, reader) == HEAD + b"".join(page.parts)


def test_a_page_without_parts_is_its_head(wire: Wire, reader: Client) -> None:
    answer(wire, LongPage(()))

    assert read_all(wire, reader) == HEAD
