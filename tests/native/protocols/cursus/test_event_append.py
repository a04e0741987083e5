"""Cursus's APPEND_STREAM on the native path: the next event of a known stream, or Python's."""

import errno
import struct
from types import SimpleNamespace

import pytest

from broker._native.kernel import file_ops
from broker._native.protocols.cursus.batch import fnv_1a_64
from broker._native.protocols.cursus.produce import HAS_STREAMS
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.cursus.stream_heads import StreamHeads, StreamTables
from broker.codec import records
from broker.model.limits import CURSUS_FAST_BATCH_BYTES_MAX
from tests.support.native_wire import Client, Wire

KEY = b"key"
APPEND = (
    b"APPEND_STREAM topic=topic key=key version=%d event_type=E schema_version=2 producerId=p"
    b" metadata=m message=a b\n"
)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


class Served:
    """A connection, and the streams of the partition that has the key."""

    def __init__(self, wire: Wire, partitions: int, session: object = None) -> None:
        self.wire = wire
        self.tables = StreamTables(10_000)
        self.log = wire.log(fnv_1a_64(KEY) % partitions)
        self.configure()
        wire.poller.serve_with(
            {"cursus": Cursus(None, streams=self.tables)}, wire.slow.extend, lambda *_: None
        )
        self.client: Client = wire.connect(session)
        self.heads: StreamHeads = self.tables.begin(self.log, self.log.known_epoch)

    def configure(self, flags: int = HAS_STREAMS) -> None:
        self.log.configure(is_plain=False, is_group_commit=False, protocol_flags=flags)

    def send(self, body: bytes) -> None:
        self.client.send(framed(body))

    def assert_left_to_python(self, body: bytes) -> None:
        before = self.log.log_end_offset, dict(self.heads.versions), dict(self.heads.recent)
        self.send(body)
        assert (self.log.log_end_offset, self.heads.versions, self.heads.recent) == before
        assert len(self.wire.slow) == 1
        self.wire.slow.pop().send(None)
        self.client.send(b"")


@pytest.fixture
def served(wire: Wire) -> Served:
    return Served(wire, 3)


@pytest.mark.parametrize("envelope", [b"", b"\0\0", b"\0\x05topic"])
def test_the_next_event_of_a_known_stream_is_appended(served: Served, envelope: bytes) -> None:
    served.heads.know(KEY, 4)

    for offset, version in enumerate((5, 6)):
        served.send(envelope + APPEND % version)
        answer = b"OK version=%d offset=%d partition=%d"
        assert served.client.frame() == framed(answer % (version, offset, served.log.partition))
    assert served.wire.slow == []
    assert served.heads.versions == {KEY: 6}
    assert served.heads.recent == {KEY: [4, 0, 1]}
    [first, _] = records(served.log.read(0, 1 << 20))
    assert (first.key, first.value) == (KEY, b"a b")
    assert first.headers == [
        (b"cursus.producer_id", b"p"),
        (b"cursus.event_type", b"E"),
        (b"cursus.schema_version", b"2"),
        (b"cursus.aggregate_version", b"5"),
        (b"cursus.metadata", b"m"),
    ]


def test_a_version_is_given_once_within_one_turn(served: Served) -> None:
    served.heads.know(KEY, 0)

    served.client.send(framed(APPEND % 1) * 2)

    assert served.log.log_end_offset == 1
    assert len(served.wire.slow) == 1
    served.wire.slow.pop().send(None)
    served.client.send(b"")


@pytest.mark.parametrize("version", [0, 3, 5])
def test_another_version_is_left_to_python(served: Served, version: int) -> None:
    served.heads.know(KEY, 3)

    served.assert_left_to_python(APPEND % version)


@pytest.mark.parametrize(
    "body",
    [
        b"APPEND_STREAM ",
        b"append_stream topic=topic key=key version=1 message=m",
        b"APPEND_STREAM topic=topic key=key version=1",
        b"APPEND_STREAM topic=topic key=key version=1 message= ",
        b"APPEND_STREAM topic=topic key=key version=x message=m",
        b"APPEND_STREAM topic=topic key=key version=-1 message=m",
        b"APPEND_STREAM topic=topic key=key message=m",
        b"APPEND_STREAM topic=topic version=1 message=m",
        b"APPEND_STREAM key=key version=1 message=m",
        b"APPEND_STREAM topic=other key=key version=1 message=m",
        b"APPEND_STREAM topic=topic key=new version=1 message=m",
        b"APPEND_STREAM topic=topic key=key version=1 schema_version=4294967296 message=m",
        b"APPEND_STREAM topic=topic key=key version=1 colour=red message=m",
        b"APPEND_STREAM topic=topic key=key version=1 =x message=m",
        b"APPEND_STREAM topic=topic key=key version=1 stray message=m",
        b"APPEND_STREAM topic=topic key=key version=1 metadata=" + b"x" * 256 + b" message=m",
        b"APPEND_STREAM topic=topic key=key version=1 message="
        + b"x" * CURSUS_FAST_BATCH_BYTES_MAX,
    ],
)
def test_what_is_unusual_is_left_to_python(served: Served, body: bytes) -> None:
    served.heads.know(KEY, 0)

    served.assert_left_to_python(body)


def test_every_beginning_of_an_append_is_left_to_python(served: Served) -> None:
    served.heads.know(KEY, 0)
    body = APPEND % 1

    for size in range(1, body.index(b"message=") + len(b"message=")):
        served.assert_left_to_python(body[:size])


def test_streams_of_another_epoch_are_left_to_python(served: Served) -> None:
    served.heads = served.tables.begin(served.log, served.log.known_epoch + 1)
    served.heads.know(KEY, 0)

    served.assert_left_to_python(APPEND % 1)


def test_a_topic_without_streams_is_left_to_python(served: Served) -> None:
    served.heads.know(KEY, 0)
    served.configure(flags=0)

    served.assert_left_to_python(APPEND % 1)


def test_appends_are_left_to_python_while_there_is_no_memory_for_them(served: Served) -> None:
    served.heads.know(KEY, 0)
    served.heads.hold(10_000)
    served.assert_left_to_python(APPEND % 1)

    _, size = served.heads.take_recent()
    served.assert_left_to_python(APPEND % 1)
    served.tables.release(size)
    served.send(APPEND % 1)

    assert b"OK version=1 offset=0 " in served.client.frame()


def test_structured_errors_are_left_to_python(wire: Wire) -> None:
    state = SimpleNamespace(has_structured_errors=True, leader=None)
    served = Served(wire, 3, SimpleNamespace(state=state))
    served.heads.know(KEY, 0)

    served.assert_left_to_python(APPEND % 1)


def test_a_failed_sync_is_an_error(durable: Wire, recording: None) -> None:
    served = Served(durable, 1)
    served.log.configure(is_plain=False, protocol_flags=HAS_STREAMS)
    served.heads.know(KEY, 0)
    file_ops.fail("sync_data", ".log", errno.EIO)

    served.send(APPEND % 1)

    assert served.client.frame() == framed(
        b'ERROR: command_failed reason="the log of the partition has failed"'
    )
