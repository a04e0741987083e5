"""A connection of Cursus without a broker, and the streams of the partition that it appends to."""

import struct

from broker._native.protocols.cursus.batch import fnv_1a_64
from broker._native.protocols.cursus.produce import HAS_STREAMS
from broker._native.protocols.cursus.protocol import Cursus
from broker._native.protocols.cursus.stream_heads import StreamHeads, StreamTables
from tests.support.native_wire import Client, Wire

KEY = b"key"
APPEND = (
    b"APPEND_STREAM topic=topic key=key version=%d event_type=E schema_version=2 producerId=p"
    b" metadata=m message=a b\n"
)


def framed(body: bytes) -> bytes:
    """Return a body as a frame."""
    return struct.pack(">I", len(body)) + body


class Served:
    """A connection, and the streams of the partition that has the key."""

    def __init__(self, wire: Wire, partitions: int, session: object = None) -> None:
        """Connect; nothing is known of any stream."""
        self.wire = wire
        self.tables = StreamTables(10_000, filter_bytes_max=1 << 20)
        self.log = wire.log(fnv_1a_64(KEY) % partitions)
        self.configure()
        self.cursus = Cursus(None, streams=self.tables)
        wire.poller.serve_with({"cursus": self.cursus}, wire.slow.extend, lambda *_: None)
        self.client: Client = wire.connect(session)
        self.heads: StreamHeads = self.tables.begin(self.log, self.log.known_epoch)

    def configure(self, flags: int = HAS_STREAMS) -> None:
        """Set the flags of the log."""
        self.log.configure(is_plain=False, is_group_commit=False, protocol_flags=flags)

    def send(self, body: bytes) -> None:
        """Send a frame, and let it be served."""
        self.client.send(framed(body))

    def assert_left_to_python(self, body: bytes) -> None:
        """Send a frame which only Python serves, without any change before."""
        before = self.log.log_end_offset, dict(self.heads.versions), dict(self.heads.recent)
        self.send(body)
        assert (self.log.log_end_offset, self.heads.versions, self.heads.recent) == before
        assert len(self.wire.slow) == 1
        self.wire.slow.pop().send(None)
        self.client.send(b"")
