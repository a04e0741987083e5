"""Attacks by records: valid outside, malicious inside.

Each is written through every protocol that accepts it, and read through every protocol that has to
decompress or rewrite it.
"""

import gzip
import struct
import zlib
from contextlib import ExitStack, suppress

import cramjam
import xxhash

from tests.support import cursus_client, rustlog_client, wire_requests
from tests.support.cursus_client import CursusClient
from tests.support.rustlog_client import ConnectionEndedError, RustLogClient
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import CODECS, TIMESTAMP, Batch, encode_records, varint

MIB = 1 << 20
INT32_MAX = 0x7FFFFFFF
INT64_MAX = 0x7FFFFFFFFFFFFFFF
OFFSETS_READ = 50
OVERLONG = b"\xff" * 11
BODY = encode_records([b"a" * 100])


def record(*fields: bytes) -> bytes:
    """Return a record of these fields with its length prefix."""
    body = b"".join(fields)
    return varint(len(body)) + body


PAYLOADS = {
    "a negative length of a record": varint(-2) + BODY,
    "a negative length of a key": record(b"\0\0\0", varint(-5), b"\x02a\0"),
    "a negative length of a value": record(b"\0\0\0\x01", varint(-(1 << 31)), b"\0"),
    "a value as long as can be": record(b"\0\0\0\x01", varint(INT32_MAX), b"a\0"),
    "a negative number of headers": record(b"\0\0\0\x01\x02a", varint(-1)),
    "headers without end": record(b"\0\0\0\x01\x02a", varint(INT32_MAX)),
    "a header without a key": record(b"\0\0\0\x01\x02a\x02", varint(-1), b"\x01"),
    "a varint without end": OVERLONG + BODY,
    "a varint without end as an offset": record(b"\0\0", OVERLONG, b"\x01\x02a\0"),
    "a time beyond time": record(b"\0", varint(INT64_MAX), b"\0\x01\x02a\0"),
    "an offset beyond its batch": record(b"\0\0", varint(INT32_MAX), b"\x01\x02a\0"),
    "an offset before its batch": record(b"\0\0", varint(-9), b"\x01\x02a\0"),
}


def zstd_frame(head: bytes, content: bytes = BODY) -> bytes:
    """Return a frame of one raw block with the given header."""
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd" + head + block + content


def lz4_frame(size: int, content: bytes = BODY) -> bytes:
    """Return a frame of one raw block with the given block length."""
    head = b"\x68\x40" + size.to_bytes(8, "little")
    check = bytes([xxhash.xxh32_intdigest(head) >> 8 & 0xFF])
    block = (len(content) | 1 << 31).to_bytes(4, "little")
    return b"\x04\x22\x4d\x18" + head + check + block + content + bytes(4)


def xerial(*sizes: int) -> bytes:
    """Return Snappy in the framing of Java clients, with the given block lengths."""
    block = bytes(cramjam.snappy.compress_raw(BODY))
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"".join(struct.pack(">i", n) + block for n in sizes)


COMPRESSED = {
    "a window of two terabytes": ("zstd", zstd_frame(b"\x00\xff")),
    "a content of eight exabytes": ("zstd", zstd_frame(b"\xe0" + INT64_MAX.to_bytes(8, "little"))),
    "a dictionary that nobody has": ("zstd", zstd_frame(b"\x23\xff\xff\xff\xff\x64")),
    "frames without content": ("zstd", zstd_frame(b"\x20\x00", b"") * 50_000),
    "skippable frames": ("zstd", b"\x50\x2a\x4d\x18\0\0\0\0" * 100_000),
    "a skippable frame without end": ("zstd", b"\x50\x2a\x4d\x18\xff\xff\xff\xff"),
    "an lz4 content of eight exabytes": ("lz4", lz4_frame(INT64_MAX)),
    "lz4 frames without content": ("lz4", lz4_frame(0, b"") * 40_000),
    "lz4 cut short": ("lz4", lz4_frame(len(BODY))[:-9]),
    "gzip members without content": ("gzip", gzip.compress(b"") * 40_000),
    "a gzip name without end": ("gzip", b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 900_000),
    "a gzip that ends early": ("gzip", gzip.compress(BODY * 100)[:-12]),
    "a gzip with the sum of another": ("gzip", gzip.compress(BODY)[:-8] + bytes(8)),
    "a snappy content of four gigabytes": ("snappy", b"\xff\xff\xff\xff\x0f" + b"\0a"),
    "a snappy block as long as can be": ("snappy", xerial(INT32_MAX)),
    "a negative snappy block": ("snappy", xerial(-1)),
    "empty snappy blocks": ("snappy", xerial() + b"\0\0\0\0" * 200_000),
    "gzip in gzip": ("gzip", gzip.compress(gzip.compress(BODY))),
    "a batch in a batch": ("zstd", bytes(cramjam.zstd.compress(Batch([b"a"]).encode()))),
}
COUNTS = {"too many": (INT32_MAX, INT32_MAX - 1), "negative": (-1, -1), "none": (0, 0)}


def batches() -> list[bytes]:
    """Return all malicious batches with correct CRCs."""
    made = [Batch([b"a"], payload=payload).encode() for payload in PAYLOADS.values()]
    for payload in PAYLOADS.values():
        for codec, compressed in (
            ("gzip", gzip.compress(payload)),
            ("zstd", bytes(cramjam.zstd.compress(payload))),
        ):
            made.append(Batch([b"a"], payload=compressed, attributes=CODECS[codec]).encode())
    made += [
        Batch([b"a"], payload=payload, attributes=CODECS[codec]).encode()
        for codec, payload in COMPRESSED.values()
    ]
    for count, delta in COUNTS.values():
        for codec, compressed in (("none", BODY), ("lz4", bytes(cramjam.lz4.compress(BODY)))):
            evil = Batch(
                [b"a"],
                count=count,
                last_offset_delta=delta,
                payload=compressed,
                attributes=CODECS[codec],
            )
            made.append(evil.encode())
    return made


def old_message(
    value: bytes, *, offset: int = 0, attributes: int = 0, size: int | None = None
) -> bytes:
    """Return a message of magic 1 without a key, with a correct CRC."""
    body = struct.pack(">bbqii", 1, attributes, TIMESTAMP, -1, len(value)) + value
    length = len(body) + 4 if size is None else size
    return struct.pack(">qiI", offset, length, zlib.crc32(body)) + body


def old_sets() -> list[bytes]:
    """Return message sets of the formats before record batches."""
    plain = old_message(b"a")
    nested = plain
    for _ in range(20):
        nested = old_message(gzip.compress(nested), attributes=1)
    return [
        nested,
        old_message(gzip.compress(plain * 1_000), attributes=1, offset=INT64_MAX),
        old_message(gzip.compress(old_message(b"a", offset=INT64_MAX) * 3), attributes=1),
        old_message(gzip.compress(old_message(b"a", offset=-5) * 3), attributes=1),
        old_message(b"a", size=INT32_MAX),
        old_message(b"a", size=-1),
        old_message(b"a", size=3),
        *(
            old_message(payload, attributes=CODECS[codec])
            for codec, payload in COMPRESSED.values()
            if codec != "zstd"
        ),
    ]


def write_evil_records(address: str, held: ExitStack) -> None:
    """Produce with old and new versions; the broker refuses most and survives the rest."""
    client = held.enter_context(WireClient(address))
    with suppress(AssertionError):  # it exists since the previous round
        wire_requests.create_topic(client, "evil-records")
    for records in batches():
        _produce(client, wire_requests.PRODUCE_VERSION, records)
    for records in old_sets():
        _produce(client, 2, records)
    read_everywhere(address, held)


def _produce(client: WireClient, version: int, records: bytes) -> None:
    body = wire_requests.produce_body("evil-records", [(0, records)])
    try:
        client.request("Produce", version, body)
    except ConnectionClosedError:
        client.reconnect()


def read_everywhere(address: str, held: ExitStack) -> None:
    """Read by timestamp, as an old consumer, and through the other protocols."""
    client = held.enter_context(WireClient(address))
    end = wire_requests.end_offset(client, "evil-records")
    for offset in range(min(end, OFFSETS_READ)):
        for name, version, body in (
            ("ListOffsets", 7, _by_time(TIMESTAMP + offset)),
            ("ListOffsets", 7, _by_time(-3)),
            ("Fetch", 2, wire_requests.fetch_body("evil-records", 0, offset, MIB)),
        ):
            try:
                client.request(name, version, body)
            except ConnectionClosedError:
                client.reconnect()
        with suppress(OSError, ConnectionEndedError), RustLogClient(address) as rustlog:
            rustlog.ask(rustlog_client.fetch("evil-records", 0, offset, MIB))
        with suppress(OSError, cursus_client.ConnectionEndedError), CursusClient(address) as cursus:
            cursus.answer(f"CONSUME topic=evil-records partition=0 offset={offset}")


def _by_time(timestamp: int) -> dict[str, object]:
    place = {"partition_index": 0, "timestamp": timestamp}
    return {"replica_id": -1, "topics": [{"name": "evil-records", "partitions": [place]}]}


ATTACKS = [write_evil_records]
