"""Events and snapshots of an import: they are appended by commands of the protocol.

A topic with streams takes no other records, and its broker checks the version of each event. Many
commands are sent before the first answer is read; those of a connection are served in order.
"""

import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from broker.client.connection import Client
from broker.model.errors import AccessDenied, ImportFailed, PeerError, Unreachable
from broker.model.limits import CURSUS_FRAME_BYTES_MAX
from broker.protocols.cursus.importing.directory import StoredSnapshot, TimedRecord
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.importing.offset_map import OffsetMap
from broker.protocols.importing.report import Damage, Partition, Report
from broker.protocols.importing.target import Target, another_writer

_ENVELOPE: Final = b"\0\0"
_AHEAD_BYTES: Final = 256 * 1024  # of commands without an answer: within the broker's buffers
_AHEAD: Final = 200
_SPACES: Final = (b" ", b"\t", b"\n", b"\r", b"\v", b"\f")
_MESSAGE: Final = b"message="
_OK: Final = b"OK "


class Connection:
    """A connection that speaks Cursus; as a context manager it closes itself."""

    def __init__(self, client: Client) -> None:
        """Connect to the broker of a client, and log in as it has."""
        self._socket, credentials = client.beside()
        self._name = str(client.address)
        if credentials is not None:
            user, password = credentials.user, credentials.password
            self.send(f"AUTH principal={user} token={password}".encode())
            answer = self.receive()
            if not answer.startswith(_OK):
                self.close()
                text = answer.decode("utf-8", "replace")
                raise AccessDenied(f"the broker at {self._name} refuses {user}: {text}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, command: bytes) -> None:
        """Send a command in an envelope without a topic."""
        body = _ENVELOPE + command
        try:
            self._socket.sendall(struct.pack(">I", len(body)) + body)
        except OSError as error:
            raise self._gone(error) from error

    def receive(self) -> bytes:
        """Return the next answer."""
        size = int.from_bytes(self._take(4), "big")
        if size > CURSUS_FRAME_BYTES_MAX:
            raise PeerError(f"{self._name} announced an answer of {size} bytes")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = b""
        try:
            while len(data) < size:
                piece = self._socket.recv(size - len(data))
                if not piece:
                    raise ConnectionResetError("it closed the connection")
                data += piece
        except OSError as error:
            raise self._gone(error) from error
        return data

    def _gone(self, error: OSError) -> Unreachable:
        reason = "timed out" if isinstance(error, BlockingIOError | socket.timeout) else error
        return Unreachable(f"the broker at {self._name} did not answer ({reason}): see its log")


class _Sent(NamedTuple):
    """A command without an answer yet."""

    record: StoredRecord | StoredSnapshot
    size: int


class StreamImport:
    """The streams of one partition."""

    def __init__(
        self, target: Target, connection: Connection, report: Report, place: Partition
    ) -> None:
        """Begin without events."""
        self._target = target
        self._connection = connection
        self._report = report
        self._place = place
        self._sent: deque[_Sent] = deque()
        self._sent_bytes = 0
        self._refused: set[bytes] = set()  # keys of streams that have lost an event
        self._map = report.maps[place] = OffsetMap()
        self._saved = 0

    def append(self, records: Iterable[TimedRecord | Damage]) -> None:
        """Append all events, in order."""
        for each in records:
            if isinstance(each, Damage):
                self._report.add_damage(each)
                continue
            record = each.record
            reason = _unfit(record)
            if reason:
                self._refuse(record.key, f"offset {record.offset} is not imported: {reason}")
            elif self._target.is_dry_run:
                self._target.note(self._place, self._map, record.offset)
            else:
                self._ask(record, _append_command(self._place.topic, record))
        self._finish()
        self._target.tell_end(self._place)

    def save(self, snapshots: Iterable[StoredSnapshot]) -> int:
        """Store snapshots, after all events; return how many are."""
        for each in snapshots:
            if self._target.is_dry_run:
                self._saved += 1
            else:
                head = (
                    f"SAVE_SNAPSHOT topic={self._place.topic} version={each.version} key=".encode()
                )
                self._ask(each, b"%s%s %s%s" % (head, each.key, _MESSAGE, each.payload))
        self._finish()
        return self._saved

    def _ask(self, record: StoredRecord | StoredSnapshot, command: bytes) -> None:
        self._connection.send(command)
        self._sent.append(_Sent(record, len(command)))
        self._sent_bytes += len(command)
        while self._sent_bytes > _AHEAD_BYTES or len(self._sent) > _AHEAD:
            self._take_answer()

    def _finish(self) -> None:
        while self._sent:
            self._take_answer()

    def _take_answer(self) -> None:
        record, size = self._sent.popleft()
        self._sent_bytes -= size
        answer = self._connection.receive()
        text = answer.decode("utf-8", "replace")
        if not answer.startswith(_OK):
            place = f"version {_version(record)} of a stream"
            self._refuse(record.key, f"{place} is not imported: {text}")
        elif isinstance(record, StoredSnapshot):
            self._saved += 1
        else:
            fields = dict(part.partition("=")[::2] for part in text.split()[1:])
            offset, partition = int(fields["offset"]), int(fields["partition"])
            if partition != self._place.number:
                raise ImportFailed(
                    f"topic {self._place.topic} has another number of partitions than the original"
                    f": delete it and import again"
                )
            if offset != self._map.count:
                raise another_writer(self._place)
            self._target.note(self._place, self._map, record.offset)

    def _refuse(self, key: bytes, problem: str) -> None:
        """Report the first event of a stream that is not imported: none follows it."""
        if key not in self._refused:
            self._refused.add(key)
            name = f"{self._place.topic}-{self._place.number}, key {key!r}"
            self._report.add_problem(f"{name}: {problem}; nothing behind it in this stream is")


def _version(record: StoredRecord | StoredSnapshot) -> int:
    if isinstance(record, StoredSnapshot):
        return record.version
    return record.aggregate_version


def _unfit(record: StoredRecord) -> str:
    """Return why a record cannot be an event here; empty if it can."""
    if not record.key or not record.aggregate_version:
        return "it has no key or no version, and is no event"
    for what in (record.key, record.event_type, record.metadata, record.producer_id):
        if _MESSAGE in what or any(each in what for each in _SPACES):
            return f"no command can have {what!r}"
    if not record.payload or record.payload != record.payload.strip():
        return "its payload is empty, or begins or ends with white space"
    return ""


def _append_command(topic: str, record: StoredRecord) -> bytes:
    fields = [
        (b"topic", topic.encode()),
        (b"key", record.key),
        (b"version", b"%d" % record.aggregate_version),
        (b"event_type", record.event_type),
        (b"schema_version", b"%d" % record.schema_version if record.schema_version else b""),
        (b"metadata", record.metadata),
        (b"producerId", record.producer_id),
    ]
    tokens = [b"%s=%s" % (name, value) for name, value in fields if value]
    return b"APPEND_STREAM %s %s%s" % (b" ".join(tokens), _MESSAGE, record.payload)
