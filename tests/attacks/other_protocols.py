"""The same attacks through the other protocols: V1's lines, RustLog's frames, Cursus's streams."""

import json
import socket
import struct
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from tests.support import cursus_client, rustlog_client
from tests.support.cursus_client import CursusClient, Message
from tests.support.line_client import LineClient
from tests.support.rustlog_client import ConnectionEndedError, RustLogClient

MIB = 1 << 20
DEAF = 100
LINES = 60
NESTED = 200_000


def fill(address: str, topic: str) -> None:
    """Create a topic and write 16 MB to it."""
    with CursusClient(address) as filler:
        filler.ask(f"CREATE topic={topic} partitions=1")
        for _ in range(16):
            filler.ask(cursus_client.batch(topic, 0, [Message(b"x" * 1_000_000)]))


def open_streams_and_read_nothing(address: str, held: ExitStack) -> None:
    """Stream a topic that holds much more than a socket buffer, and read nothing."""
    fill(address, "streamed")
    for number in range(DEAF):
        deaf = held.enter_context(CursusClient(address, 1.0))
        with suppress(OSError):
            deaf.ask(f"JOIN_GROUP topic=streamed group=deaf-{number} member=m")
            deaf.send(f"STREAM topic=streamed partition=0 group=deaf-{number} offset=0")


def consume_and_read_nothing(address: str, held: ExitStack) -> None:
    """Request large responses that each protocol builds in memory, and read nothing."""
    fill(address, "consumed")
    asked = {
        "cursus": _cursus(b"CONSUME topic=consumed partition=0 offset=0"),
        "rustlog": rustlog_client.frame(rustlog_client.fetch("consumed", 0, 0, 10 * MIB)),
        "v1": b"V1|1|CONSUME|consumed 0 0\n",
    }
    for number in range(DEAF):
        for data in asked.values():
            with suppress(OSError):
                deaf = held.enter_context(_connect(address))
                deaf.sendall(data * (1 + number % 20))


def write_lines_without_end(address: str, held: ExitStack) -> None:
    """Send a line that never ends, and many of almost the maximum length."""
    for number in range(LINES):
        client = held.enter_context(LineClient(address, 5.0))
        with suppress(OSError):
            client.send(b"V1|1|PRODUCE|lines " + b"x" * (60_000 if number % 2 else 10 * MIB))


def nest_json(address: str, held: ExitStack) -> None:
    """Send JSON of unlimited depth, unlimited numbers, and arrays of many small values."""
    for text in (
        '{"Produce":' + "[" * NESTED,
        '{"Produce":' + '{"a":' * NESTED,
        '{"Fetch": {"topic": "t", "partition": ' + "9" * MIB + "}}",
        '{"Fetch": {"topic": "t", "more": [' + "[]," * MIB + "[]]}}",
        json.dumps({"Produce": {"topic": "nest", "partition": 0, "records": [[1] * MIB]}}),
        json.dumps({"Produce": {"topic": "nest", "partition": 0, "records": [[]] * 400_000}}),
    ):
        with suppress(OSError, ConnectionEndedError):
            held.enter_context(RustLogClient(address)).send(rustlog_client.frame(text.encode()))


def send_evil_batches(address: str, held: ExitStack) -> None:
    """Send batches with false counts and lengths in each protocol that has its own batches."""
    good = cursus_client.batch("evil", 0, [Message(b"a")])
    ask_cursus(address, [b"CREATE topic=evil partitions=1"], held)
    ask_cursus(
        address,
        [
            cursus_client.batch("evil", 0, [Message(b"a")], count=0x7FFFFFFF),
            cursus_client.batch("evil", 0, [Message(b"a")], count=-1),
            cursus_client.batch("evil", 0, [Message(b"a")], count=0),
            *(good[:cut] for cut in range(1, len(good), 7)),
            b"\x1f\x8b" + bytes(100),
            b"\x28\xb5\x2f\xfd" + bytes(100),
            b"\x04\x22\x4d\x18" + bytes(100),
            b"\x82SNAPPY\x00" + b"\xff" * 100,
        ],
        held,
    )
    topic = rustlog_client.string("evil")
    for tail in (
        struct.pack(">III", 0, 0xFFFFFFFF, 1) + b"a",
        struct.pack(">III", 0, 1, 0xFFFFFFFF) + b"a",
        struct.pack(">III", 0xFFFFFFFF, 1, 1) + b"a",
        struct.pack(">II", 0, 0x7FFFFFFF) + bytes(4 * MIB),
    ):
        with suppress(OSError, ConnectionEndedError):
            held.enter_context(RustLogClient(address)).send(
                rustlog_client.frame(b"\x01" + topic + tail)
            )


def ask_cursus(address: str, bodies: Iterable[bytes], held: ExitStack) -> None:
    """Send each on its own connection, because the broker may close it."""
    for body in bodies:
        with suppress(OSError):
            client = held.enter_context(CursusClient(address))
            client.send(body)
            client.frame()


def _cursus(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 1.0)


ATTACKS = [
    open_streams_and_read_nothing,
    consume_and_read_nothing,
    write_lines_without_end,
    nest_json,
    send_evil_batches,
]
