"""A small blocking Cursus client and its batches, written from the protocol's description alone."""

import socket
import struct
from typing import NamedTuple, Self

TIMEOUT_S = 60.0
MAGIC = b"\xba\x7c"


class ConnectionEndedError(ConnectionError):
    """There is no response, or an incomplete one."""


class Message(NamedTuple):
    """One record of a batch."""

    payload: bytes
    seq: int = 0
    producer_id: bytes = b""
    key: bytes = b""
    epoch: int = 0
    event_type: bytes = b""
    schema_version: int = 0
    aggregate_version: int = 0
    metadata: bytes = b""
    offset: int = 0


class Batch(NamedTuple):
    """A batch of a response."""

    topic: bytes
    partition: int
    acks: bytes
    seq_start: int
    seq_end: int
    messages: list[Message]


def short(text: bytes) -> bytes:
    """Return bytes with a length prefix of 16 bits."""
    return struct.pack(">H", len(text)) + text


def message_bytes(message: Message) -> bytes:
    """One record."""
    return b"".join(
        (
            struct.pack(">QQ", message.offset, message.seq),
            short(message.producer_id),
            short(message.key),
            struct.pack(">qI", message.epoch, len(message.payload)),
            message.payload,
            short(message.event_type),
            struct.pack(">IQ", message.schema_version, message.aggregate_version),
            short(message.metadata),
        )
    )


def batch(
    topic: str | bytes,
    partition: int,
    messages: list[Message],
    *,
    acks: bytes = b"1",
    is_original: bool = False,
    is_idempotent: bool = False,
    count: int | None = None,
) -> bytes:
    """Return a batch as producers send it."""
    name = topic.encode() if isinstance(topic, str) else topic
    if is_original:
        place = short(b"%d" % partition) + short(acks)
    else:
        place = struct.pack(">iB", partition, len(acks)) + acks
    first = messages[0].seq if messages else 0
    last = messages[-1].seq if messages else 0
    size = len(messages) if count is None else count
    head = MAGIC + short(name) + place + struct.pack(">?QQi", is_idempotent, first, last, size)
    return head + b"".join(map(message_bytes, messages))


def envelope(body: str | bytes, topic: str = "") -> bytes:
    """Return a body with a topic before it, as most clients send their commands."""
    return short(topic.encode()) + (body.encode() if isinstance(body, str) else body)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        assert len(taken) == size, "the batch is cut short"
        self.position += size
        return taken

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(f">{layout}", self.take(struct.calcsize(layout)))
        return int(value)

    def short(self) -> bytes:
        return self.take(self.number("H"))


def read_batch(body: bytes, *, is_original: bool = False) -> Batch:
    """Parse the batch of a response; no bytes may be left over."""
    reader = _Reader(body)
    assert reader.take(2) == MAGIC, body
    topic = reader.short()
    if is_original:
        partition, acks = int(reader.short()), reader.short()
    else:
        partition, acks = reader.number("i"), reader.take(reader.number("B"))
    assert reader.number("B") == 0
    first, last, count = reader.number("Q"), reader.number("Q"), reader.number("i")
    messages = [_read_message(reader) for _ in range(count)]
    assert reader.position == len(body)
    return Batch(topic, partition, acks, first, last, messages)


def _read_message(reader: _Reader) -> Message:
    offset, seq = reader.number("Q"), reader.number("Q")
    producer_id, key = reader.short(), reader.short()
    epoch = reader.number("q")
    payload = reader.take(reader.number("I"))
    event_type = reader.short()
    schema_version, aggregate_version = reader.number("I"), reader.number("Q")
    return Message(
        payload,
        seq,
        producer_id,
        key,
        epoch,
        event_type,
        schema_version,
        aggregate_version,
        reader.short(),
        offset,
    )


class CursusClient:
    """One connection."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        """Connect."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bytes = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._bytes.close()
        self.socket.close()

    def send(self, body: str | bytes) -> None:
        """Send a frame."""
        content = body.encode() if isinstance(body, str) else body
        self.socket.sendall(struct.pack(">I", len(content)) + content)

    def frame(self) -> bytes | None:
        """Return the next frame's body; None when the broker has closed."""
        try:
            head = self._bytes.read(4)
            if len(head) < 4:
                return None
            (size,) = struct.unpack(">I", head)
            body = self._bytes.read(size)
        except ConnectionResetError:
            return None
        if len(body) != size:
            raise ConnectionEndedError("a frame is cut short")
        return body

    def answer(self, body: str | bytes) -> bytes:
        """Send a frame; return the body of its response."""
        self.send(body)
        answer = self.frame()
        if answer is None:
            raise ConnectionEndedError("the broker has closed the connection")
        return answer

    def ask(self, command: str | bytes) -> str:
        """Send a command; return the text of its response."""
        return self.answer(command).decode()

    def consume(self, command: str) -> Batch:
        """Send a CONSUME; return the batch of its response."""
        return read_batch(self.answer(command))
