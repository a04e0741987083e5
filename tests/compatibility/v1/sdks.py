"""V1 as its two client libraries speak it: what they send, and how they take answers apart.

Both find fields by the text `name=`, wherever it stands first, and split lines at every bar; the
Python library has one request in flight, the TypeScript one matches answers to requests by their
ids. Where they are strict, so are these: an answer that would break one of them fails a test.
"""

import itertools
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

TIMEOUT_S = 60.0


class SdkError(Exception):
    """An error response."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Produced(NamedTuple):
    """The position of a message."""

    partition: int
    offset: int
    high_watermark: int | None


class Consumed(NamedTuple):
    """The result of a consume."""

    messages: list[tuple[int, str]]
    high_watermark: int


class Assigned(NamedTuple):
    """The state of a member."""

    generation: int
    partitions: list[int]


class PythonSdk:
    """One request in flight; the answer's id must be the request's."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send(self, command: str, args: str) -> str:
        correlation_id = str(next(self._ids))
        self._socket.sendall(f"V1|{correlation_id}|{command}|{args}\n".encode())
        data = self._file.readline()
        if not data.endswith(b"\n"):  # the library would take half a line for a whole one
            raise ConnectionError("closed")
        line = data.decode().strip()
        parts = line.split("|")
        if len(parts) < 3 or parts[0] != "V1":
            raise RuntimeError(f"invalid response: {line}")
        if parts[1] != correlation_id:
            raise RuntimeError(f"correlation mismatch: {parts[1]} is not {correlation_id}")
        if parts[2] == "ERR":
            raise SdkError(parts[3], "|".join(parts[4:]))
        if parts[2] != "OK":
            raise RuntimeError(f"invalid response: {line}")
        return "|".join(parts[3:])

    def produce(self, topic: str, key: str, value: str, acks: str = "1") -> Produced:
        payload = self.send("PRODUCE", f"{topic} {key}:{value} acks={acks}")
        return Produced(
            number(payload, "partition"), number(payload, "offset"), number(payload, "hw")
        )

    def consume(self, topic: str, partition: int, offset: int) -> Consumed:
        payload = self.send("CONSUME", f"{topic} {partition} {offset}")
        start = payload.index("messages=") + len("messages=")
        data = payload[start : payload.index(" hw=", start)]
        messages = []
        for item in data.split(",") if data else []:
            message_offset, colon, value = item.partition(":")
            if not colon:
                raise RuntimeError(f"invalid message {item}")
            messages.append((int(message_offset), value))
        return Consumed(messages, number(payload, "hw"))

    def join(self, group: str, topic: str, member: str, assignor: str = "") -> Assigned:
        option = f" assignor={assignor}" if assignor else ""
        return assigned(self.send("JOIN", f"{group} {topic} {member}{option}"))

    def sync(self, group: str, topic: str, member: str, generation: int) -> Assigned:
        return assigned(self.send("SYNC", f"{group} {topic} {member} {generation}"))

    def heartbeat(self, group: str, topic: str, member: str, generation: int) -> None:
        assert self.send("HEARTBEAT", f"{group} {topic} {member} {generation}") == "heartbeat=ok"

    def leave(self, group: str, topic: str, member: str, generation: int) -> None:
        assert self.send("LEAVE", f"{group} {topic} {member} {generation}") == "left=true"

    def commit(self, *args: str | int) -> None:
        assert self.send("COMMIT", " ".join(map(str, args))) == "committed=true"

    def offset(self, group: str, topic: str, partition: int) -> int:
        return number(self.send("OFFSET", f"{group} {topic} {partition}"), "offset")

    def metadata(self) -> tuple[list[str], list[int]]:
        payload = self.send("ADMIN_GET_METADATA", "")
        return listed(payload, "topics=["), [int(each) for each in listed(payload, "brokers=[")]


def number(payload: str, name: str) -> int:
    """Return the number after the first `name=`."""
    start = payload.index(f"{name}=") + len(name) + 1
    return int(payload[start:].split(" ", maxsplit=1)[0])


def listed(payload: str, head: str) -> list[str]:
    """Return the contents of the brackets after `name=`."""
    start = payload.index(head) + len(head)
    return payload[start : payload.index("]", start)].split()


def assigned(payload: str) -> Assigned:
    """Return a generation, and the contents of the first brackets."""
    inside = payload[payload.index("[") + 1 : payload.index("]")]
    return Assigned(number(payload, "generation"), [int(each) for each in inside.split()])


class TypeScriptSdk:
    """Any number of requests in flight; answers are matched by their ids."""

    LINE = re.compile(r"V1\|([^|]*)\|(OK|ERR)(?:\|(.*))?", re.DOTALL)

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def send_all(self, commands: list[str]) -> list[str]:
        """Send commands (COMMAND|args) at once; return their payloads, or error codes."""
        ids = [f"ts-{next(self._ids)}" for _ in commands]
        lines = (f"V1|{each}|{command}\n" for each, command in zip(ids, commands, strict=True))
        self._socket.sendall("".join(lines).encode())
        answers: dict[str, str] = {}
        while len(answers) < len(ids):
            line = self._file.readline().decode("utf-8", "replace").strip()
            found = self.LINE.fullmatch(line)
            if found is None:
                raise RuntimeError(f"invalid response: {line!r}")
            answers[found[1]] = found[3] or ""
        return [answers[each] for each in ids]

    def field(self, payload: str, name: str) -> str:
        found = re.search(rf"{name}=(\S*)", payload)
        if found is None:
            raise RuntimeError(f"no {name} in {payload}")
        return found[1]


@contextmanager
def python_sdk(address: str) -> Iterator[PythonSdk]:
    """Connect as the Python library does."""
    client = PythonSdk(address)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def typescript_sdk(address: str) -> Iterator[TypeScriptSdk]:
    """Connect as the TypeScript library does."""
    client = TypeScriptSdk(address)
    try:
        yield client
    finally:
        client.close()


def restored(payload: str) -> dict[int, bytes]:
    """Return what a reader that understands `escaped` gets: every value as it was written."""
    data, _, rest = payload.removeprefix("messages=").partition(" hw=")
    escaped = {int(each) for each in re.findall(r"\d+", rest.partition("escaped=")[2])}
    values = {}
    for item in data.split(",") if data else []:
        offset_text, _, value = item.partition(":")
        offset = int(offset_text)
        values[offset] = unquote_to_bytes(value) if offset in escaped else value.encode()
    return values
