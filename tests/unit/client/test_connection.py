"""The client of the commands, against peers that are not a broker or a bad one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker import codec
from broker.client import connection as module
from broker.client.connection import Client
from broker.model.address import Address
from broker.model.errors import PeerError, TimedOut, Unreachable
from tests.support.scripted_broker import scripted_broker

ANSWER = codec.response_frame("ApiVersions", 0, {"error_code": 0, "api_keys": []}, correlation_id=1)


@contextmanager
def peer(answer: bytes, *, closes: bool = True) -> Iterator[Address]:
    """A peer that reads one request, sends this, and closes or stays silent."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)
            if not closes:
                ended.wait(10)

    thread = threading.Thread(target=serve)
    thread.start()
    yield Address("127.0.0.1", listening.getsockname()[1])
    ended.set()
    thread.join()
    listening.close()


def test_a_response_is_returned() -> None:
    with peer(ANSWER) as address, Client(address) as client:
        assert client.request("ApiVersions", 0, {})["error_code"] == 0


@pytest.mark.parametrize("cut", range(len(ANSWER)))
def test_a_connection_that_ends_at_any_length_raises(cut: int) -> None:
    with (
        peer(ANSWER[:cut]) as address,
        Client(address) as client,
        pytest.raises(Unreachable, match="did not answer ApiVersions"),
    ):
        client.request("ApiVersions", 0, {})


def test_a_silent_peer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_TIMEOUT_SECONDS", 0.05)
    with (
        peer(ANSWER[:5], closes=False) as address,
        Client(address) as client,
        pytest.raises(TimedOut, match="timed out"),
    ):
        client.request("ApiVersions", 0, {})


def test_a_peer_that_reads_nothing_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_TIMEOUT_SECONDS", 0.05)
    records = bytes(16 << 20)  # more than the kernel buffers on both sides
    body = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]}
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        Client(Address("127.0.0.1", listening.getsockname()[1])) as client,
        pytest.raises(TimedOut, match=r"did not answer Produce \(timed out"),
    ):
        client.request("Produce", 3, body)


def test_a_response_that_arrives_in_pieces_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(socket.socket):
        """Its calls end early, as after a signal."""

        def recv(self, size: int, flags: int = 0) -> bytes:
            return super().recv(min(size, 3), flags)

    with peer(ANSWER) as address, Client(address) as client:
        monkeypatch.setattr(client, "_socket", Interrupted(fileno=client._socket.detach()))

        assert client.request("ApiVersions", 0, {})["error_code"] == 0
        client.close()


def test_bytes_of_a_response_are_memoryviews_on_request() -> None:
    body = {"responses": [{"topic": "t", "partitions": [{"records": b"batches"}]}]}
    with (
        peer(codec.response_frame("Fetch", 4, body, correlation_id=1)) as address,
        Client(address) as client,
    ):
        answer = client.request("Fetch", 4, {}, as_views=True)

    records = answer["responses"][0]["partitions"][0]["records"]
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batches"


@pytest.mark.parametrize(
    "answer",
    [
        b"\x7f\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        ANSWER[:-1].replace(ANSWER[:4], (len(ANSWER) - 5).to_bytes(4, "big"), 1),
        codec.response_frame("ApiVersions", 0, {"error_code": 0, "api_keys": []}, correlation_id=2),
    ],
)
def test_bytes_that_are_not_a_response_are_refused(answer: bytes) -> None:
    with peer(answer) as address, Client(address) as client, pytest.raises(PeerError):
        client.request("ApiVersions", 0, {})


def test_a_refused_connection_names_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with pytest.raises(Unreachable, match="start one with `broker start`"):
        Client(Address("127.0.0.1", port))


def test_the_highest_version_supported_by_both_sides_is_chosen() -> None:
    with (
        scripted_broker(lambda *_: None, {"Fetch": range(2, 13)}) as broker,
        Client(broker.address) as client,
    ):
        assert client.version("Fetch", range(4, 18)) == 12
        assert client.version("Fetch", range(4, 8)) == 7
        assert len(broker.of("ApiVersions")) == 1


@pytest.mark.parametrize("known", [range(13, 18), range(2)])
def test_a_broker_without_a_supported_version_is_named_by_its_address(known: range) -> None:
    with (
        scripted_broker(lambda *_: None, {"Fetch": range(2, 13)}) as broker,
        Client(broker.address) as client,
        pytest.raises(PeerError, match=rf"{broker.address} supports versions 2 to 12 of Fetch"),
    ):
        client.version("Fetch", known)


def test_a_broker_without_an_api_is_reported() -> None:
    with (
        scripted_broker(lambda *_: None, {"Fetch": range(0)}) as broker,
        Client(broker.address) as client,
        pytest.raises(
            PeerError, match="supports no version of Fetch, but one of versions 4 to 5 is needed"
        ),
    ):
        client.version("Fetch", range(4, 6))
