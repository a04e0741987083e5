"""Cursus's clients that read STREAMs, and what makes each open another one.

A consumer here is a member of its group with a stream per partition, each on its own connection.
Nothing waits: `poll` takes what is there.
"""

import re
import selectors
import socket
import struct
from typing import NamedTuple

from tests.compatibility.cursus.members import JavaMember, Member, PythonMember
from tests.support.cursus_client import CursusClient, Message, envelope, read_batch

_LENGTH = struct.Struct(">I")
_JAVA_REJOINS = (
    "GEN_MISMATCH",
    "NOT_OWNER",
    "member_not_found",
    "group_not_found",
    "NOT_COORDINATOR",
)


class Got(NamedTuple):
    """One record that was delivered."""

    partition: int
    offset: int
    payload: bytes


class _Stream:
    """The connection of one partition, and the incomplete frame received so far."""

    def __init__(self, address: str, partition: int, selector: selectors.BaseSelector) -> None:
        host, _, port = address.rpartition(":")
        self.partition = partition
        self._socket = socket.create_connection((host, int(port)), 20)
        self._socket.setblocking(False)
        self._received = bytearray()
        self._selector = selector
        selector.register(self._socket, selectors.EVENT_READ, self)

    def send(self, body: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def frames(self) -> list[bytes] | None:
        """Return complete received frames; None after the broker has closed and all were taken."""
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            data = None
        except ConnectionResetError:
            data = b""
        self._received += data or b""
        found = []
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            found.append(bytes(self._received[_LENGTH.size : end]))
            del self._received[:end]
        return None if data == b"" and not found else found

    def close(self) -> None:
        self._selector.unregister(self._socket)
        self._socket.close()


class StreamingConsumer:
    """Reads its partitions by STREAM; `take` is what its client does with a frame."""

    member_type: type[Member] = Member
    is_wrapped = True  # commands in an envelope

    def __init__(self, address: str, topic: str, group: str, name: str) -> None:
        """Store the address; `start` joins."""
        self._address, self._topic, self._group = address, topic, group
        self.member = self.member_type(address, topic, group, name)
        self.got: list[Got] = []
        self.stopped: set[int] = set()  # revoked partitions
        self.signs_of_life = 0
        self._positions: dict[int, int] = {}
        self._streams: dict[int, _Stream] = {}
        self._selector = selectors.SelectSelector()  # holds no descriptor

    def start(self) -> None:
        """Join, or join again, and stream the assigned partitions from the group's offsets."""
        self.close_streams()
        self.member.join()
        with CursusClient(self._address) as client:
            for partition in self.member.partitions:
                place = f"topic={self._topic} partition={partition} group={self._group}"
                answer = client.ask(envelope(f"FETCH_OFFSET {place}"))
                found = re.fullmatch(r"OK offset=(\d+)", answer)
                assert found, answer
                self._positions[partition] = int(found[1])
        for partition in self.member.partitions:
            self.open(partition)

    def open(self, partition: int, address: str = "") -> None:
        """Stream a partition from its position, on a new connection if it has none."""
        if partition not in self._streams:
            stream = _Stream(address or self._address, partition, self._selector)
            self._streams[partition] = stream
        offset = self._positions[partition]
        command = (
            f"STREAM topic={self._topic} partition={partition} group={self._group} offset={offset}"
            f" generation={self.member.generation} member={self.member.member_id}"
        )
        body = envelope(command) if self.is_wrapped else command.encode()
        self._streams[partition].send(body)

    def reopen(self, partition: int) -> None:
        """Stream again on the same connection."""
        self._streams.pop(partition).close()
        self.open(partition)

    def poll(self, timeout_s: float = 0.05) -> None:
        """Take what has arrived; join again if that is requested."""
        for key, _ in self._selector.select(timeout_s):
            stream: _Stream = key.data
            if self._streams.get(stream.partition) is not stream:
                continue  # it has joined again meanwhile
            frames = stream.frames()
            if frames is None:
                if stream.partition in self.stopped:
                    self._streams.pop(stream.partition).close()
                else:
                    self.reopen(stream.partition)
                continue
            for frame in frames:
                if self._streams.get(stream.partition) is not stream:
                    break
                self.receive(stream.partition, frame)

    def receive(self, partition: int, frame: bytes) -> None:
        """Handle one frame."""
        if not frame:
            self.signs_of_life += 1
        elif frame.startswith(b"\xba\x7c"):
            self._deliver(partition, read_batch(frame).messages)
        else:
            self.take(partition, frame.decode())

    def take(self, partition: int, text: str) -> None:
        """Handle a text frame as the client does."""
        raise NotImplementedError

    def position_of(self, partition: int, text: str) -> dict[str, int]:
        """Parse a CLOSE, whose offset becomes the position."""
        fields = {name: int(value) for name, value in re.findall(r" (\w+)=(\d+)", text)}
        self._positions[partition] = fields["offset"]
        return fields

    def _deliver(self, partition: int, messages: list[Message]) -> None:
        for message in messages:
            # The frames of a stream have no gaps.
            assert message.offset == self._positions[partition]
            self._positions[partition] = message.offset + 1
            self.got.append(Got(partition, message.offset, message.payload))

    def commit(self) -> None:
        """Commit its positions; join again if told to."""
        payload = ",".join(f"P{each}:{self._positions[each]}" for each in self.member.partitions)
        if not payload:
            return
        member = self.member
        command = (
            f"BATCH_COMMIT topic={self._topic} group={self._group} member={member.member_id}"
            f" generation={member.generation} {payload}"
        )
        with CursusClient(self._address) as client:
            answer = client.ask(envelope(command))
        if not answer.startswith("OK"):
            assert member.must_rejoin(answer) or "offset_regression" in answer, answer
            if member.must_rejoin(answer):
                self.start()

    def beat(self) -> None:
        """Send a heartbeat; if it caused a rejoin, the streams are opened again."""
        if not self.member.beat():
            self.start()

    def close_streams(self) -> None:
        """Close every connection."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def close(self) -> None:
        """Leave the group; afterwards there is nothing to poll."""
        self.close_streams()
        self.member.leave()


class JavaConsumer(StreamingConsumer):
    """Searches for words in every frame, batches too; streams again on the same connection."""

    member_type: type[Member] = JavaMember
    is_wrapped = False

    def receive(self, partition: int, frame: bytes) -> None:
        """Parse leniently: a word in a payload counts."""
        text = frame.decode("utf-8", "replace")
        if any(each in text for each in _JAVA_REJOINS) and not text.startswith("STREAM_CONTROL"):
            self.start()
        else:
            super().receive(partition, frame)

    def take(self, partition: int, text: str) -> None:
        """Apply its tests in its order."""
        redirected = re.search(r"NOT_LEADER LEADER_IS (\S+)", text)
        if redirected:
            self._streams.pop(partition).close()
            self.open(partition, redirected[1])
        elif text.startswith("STREAM_CONTROL"):
            fields = self.position_of(partition, text)
            if " reason=offset_out_of_range " in text:
                self._positions[partition] = fields["earliest"]
                self.reopen(partition)
            elif " reason=timeout " in text or " reason=error " in text:
                self.open(partition)
            else:
                self.stopped.add(partition)
        elif text.startswith("ERROR"):
            self.open(partition)
        else:
            raise AssertionError(text)


class PythonConsumer(StreamingConsumer):
    """Compares the second word of an error; opens a new connection after any end of a stream."""

    member_type: type[Member] = PythonMember

    def take(self, partition: int, text: str) -> None:
        """Join again, or connect again."""
        if text.startswith("STREAM_CONTROL"):
            self.position_of(partition, text)
        elif self.member.must_rejoin(text):
            self.start()
            return
        self.reopen(partition)
