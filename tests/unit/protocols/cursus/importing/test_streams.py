"""The connection on which an import appends events, and what it makes of the answers."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.client.sasl import Credentials
from broker.model.clock import SystemClock
from broker.model.errors import AccessDenied, ImportFailed, PeerError, Unreachable
from broker.protocols.cursus.importing.directory import StoredSnapshot, TimedRecord
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.cursus.importing.streams import Connection, StreamImport
from broker.protocols.importing.options import Wanted
from broker.protocols.importing.report import Partition, Report
from broker.protocols.importing.target import Target

ALICE = Credentials("PLAIN", "alice", "secret")


class Peer:
    """The broker's end of a connection, and a client that opens it."""

    def __init__(self) -> None:
        """Connect the ends."""
        self.socket, self.other = socket.socketpair()
        self.credentials: Credentials | None = None
        self.address = "broker.example:9092"
        self.client: Any = self
        self.report = Report(lambda _: None)

    def beside(self) -> tuple[socket.socket, Credentials | None]:
        """Return the client's end."""
        return self.other, self.credentials

    def answer(self, *texts: str) -> None:
        """Answer the next commands."""
        for each in texts:
            self.socket.sendall(len(each).to_bytes(4) + each.encode())

    def command(self) -> bytes:
        """Return the next command that was sent, without its envelope."""
        size = int.from_bytes(self.socket.recv(4, socket.MSG_WAITALL))
        return self.socket.recv(size, socket.MSG_WAITALL).removeprefix(b"\0\0")

    def streams(self) -> StreamImport:
        """Begin to import the streams of a partition."""
        target = Target(self.client, self.report, Wanted(), SystemClock())
        return StreamImport(target, Connection(self.client), self.report, Partition("t", 1))


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.socket.close()
    made.other.close()


def event(version: int, **fields: bytes) -> TimedRecord:
    record = StoredRecord(
        b"t", 1, version - 1, b"", 0, 0, b"x", aggregate_version=version, key=b"k"
    )
    return TimedRecord(record._replace(**fields), 0)  # type: ignore[arg-type]


def test_an_import_logs_in_as_its_client_has(peer: Peer) -> None:
    peer.credentials = ALICE
    peer.answer("OK principal=alice authenticated=true")

    with Connection(peer.client):
        assert peer.command() == b"AUTH principal=alice token=secret"


def test_a_refused_login_ends_the_import(peer: Peer) -> None:
    peer.credentials = ALICE
    peer.answer("ERROR: authentication_failed mechanism=PLAIN")

    with pytest.raises(AccessDenied, match="refuses alice: ERROR: authentication_failed"):
        Connection(peer.client)


def test_events_and_snapshots_are_commands(peer: Peer) -> None:
    streams = peer.streams()
    peer.answer("OK version=1 offset=0 partition=1", "OK version=1 partition=1")

    streams.append([event(1, event_type=b"Made", metadata=b"{}", producer_id=b"p")])
    assert streams.save([StoredSnapshot(b"k", 1, b" s")]) == 1

    assert peer.command() == (
        b"APPEND_STREAM topic=t key=k version=1 event_type=Made metadata={} producerId=p message=x"
    )
    assert peer.command() == b"SAVE_SNAPSHOT topic=t version=1 key=k message= s"
    assert peer.report.is_complete


@pytest.mark.parametrize(
    "fields",
    [
        {"key": b""},
        {"key": b"a b"},
        {"event_type": b"a\tb"},
        {"metadata": b"message="},
        {"producer_id": b"\n"},
        {"payload": b""},
        {"payload": b" x"},
    ],
)
def test_what_no_command_can_have_is_reported_once_per_stream(
    peer: Peer, fields: dict[str, bytes]
) -> None:
    peer.streams().append([event(1, **fields), event(2, **fields)])

    assert peer.report.problem_count == 1
    assert "offset 0 is not imported: " in peer.report.problems[0]


def refused(peer: Peer, *answers: str) -> None:
    streams = peer.streams()
    peer.answer(*answers)
    streams.append([event(1)])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("OK version=1 offset=7 partition=1", "another client writes to it"),
        ("OK version=1 offset=0 partition=2", "another number of partitions"),
    ],
)
def test_an_event_at_another_place_ends_the_import(peer: Peer, answer: str, text: str) -> None:
    with pytest.raises(ImportFailed, match=text):
        refused(peer, answer)


def close(peer: Peer) -> None:
    peer.socket.shutdown(socket.SHUT_WR)


def announce_too_much(peer: Peer) -> None:
    peer.socket.sendall(b"\xff" * 4)


@pytest.mark.parametrize(("do", "error"), [(close, Unreachable), (announce_too_much, PeerError)])
def test_a_broker_that_gives_no_answer_ends_the_import(
    peer: Peer, do: Callable[[Peer], None], error: type[Exception]
) -> None:
    streams = peer.streams()
    do(peer)

    with pytest.raises(error, match=r"broker\.example:9092"):
        streams.append([event(1)])


def test_a_refused_snapshot_is_reported(peer: Peer) -> None:
    streams = peer.streams()
    peer.answer("ERROR: snapshot_version_exceeds_stream version=2 current=0")

    assert streams.save([StoredSnapshot(b"k", 2, b"s")]) == 0
    assert "version 2 of a stream is not imported" in peer.report.problems[0]
