"""A native connection and what a peer may send: frames, headers, Produce, Fetch, V1, Cursus."""

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from broker._native.log.commit import CommitThread
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.v1.protocol import V1
from tests.fuzz.inputs import OPTIONS_SIZE, Options
from tests.fuzz.segment_targets import memory_folder
from tests.support.broken_batches import CASES
from tests.support.cursus_client import Message, batch, envelope
from tests.support.native_log import NOW_MS, Logs, records
from tests.support.native_wire import API_VERSIONS, Client, Wire, fetch, produce, request

INPUTS_MAX = 1000  # with the same logs, which grow
PIECE_SIZE = 64


def _ignore(*_: object) -> None:
    pass


class Wires:
    """Connections to two partitions, made anew from time to time."""

    def __init__(self, prepare: Callable[[Wire], object]) -> None:
        """Nothing is open before the first input; `prepare` says what is served."""
        self._prepare = prepare
        self._commit: CommitThread | None = None
        self._folder = ""
        self._wire: Wire | None = None
        self._inputs = 0

    def wire(self) -> Wire:
        """Return what connections are opened with."""
        self._inputs += 1
        if self._wire is None or self._inputs % INPUTS_MAX == 0:
            self.close()
            self._commit = self._commit or CommitThread(1)
            self._folder = tempfile.mkdtemp(dir=memory_folder())
            logs = Logs(Path(self._folder), self._commit)
            self._wire = Wire(logs)
            self._wire.serve(*(logs.create(place, is_group_commit=False) for place in (0, 1)))
            self._prepare(self._wire)
        return self._wire

    def close(self) -> None:
        """Close and remove everything."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            shutil.rmtree(self._folder)


def _serve(wire: Wire) -> None:
    wire.poller.serve_with(
        {"v1": V1(None, b"ERR\n"), "cursus": Cursus(None), "kafka": wire.kafka},
        wire.slow.extend,
        _ignore,
    )


_WIRES = Wires(_serve)


def connection(data: bytes) -> None:
    """Send the bytes at once or in pieces, and close; requests for Python are not answered."""
    options = Options(data)
    wire = _WIRES.wire()
    client = wire.connect()
    send(client, options.content, is_in_pieces=options.flag(0, 0))
    client.frames()
    end(wire, client)


def send(client: Client, content: bytes, *, is_in_pieces: bool) -> None:
    """Send bytes at once or in pieces, each of which is served before the next one."""
    size = PIECE_SIZE if is_in_pieces else max(1, len(content))
    for start in range(0, len(content), size):
        client.send(content[start : start + size])


def end(wire: Wire, client: Client) -> None:
    """Close a connection; nothing of it is left for the next one."""
    client.close()
    wire.run()
    wire.slow.clear()
    wire.closed.clear()
    wire.clients.clear()


def seeds() -> Iterator[bytes]:
    """Return requests that are served natively, and one that is not."""
    sent = records(3)
    head = bytes(OPTIONS_SIZE)
    for version in (3, 9, 13):
        yield head + produce(version, (0, sent), (1, sent))
    for case in CASES.values():
        yield head + produce(9, (0, case.batch(NOW_MS)))
    for version in (4, 11, 12, 13, 18):
        yield head + fetch(version, (0, 0), (1, 0))
    yield head + request(API_VERSIONS, 4, {}) + produce(9, (0, sent), acks=0)
    for line in (b"PRODUCE|topic user1:a,b acks=1\r", b"PRODUCE|topic :\xe2\x80\xa8", b"PING|"):
        yield head + b"V1|1|" + line + b"\nV1|2|CONSUME|topic 1 0\n"
    publish = b"PUBLISH topic=topic producerId=p key=k seqNum=1 epoch=-1 acks=all message=m"
    message = Message(b"hi", 1, b"p", b"k", -5, b"made", 3, 1 << 63, b"{}")
    for body in (publish, envelope(publish.decode()), batch("topic", 1, [message] * 2)):
        yield head + struct.pack(">I", len(body)) + body
    yield bytes([1]).ljust(OPTIONS_SIZE, b"\0") + fetch(12, (0, 0), session_epoch=0)
