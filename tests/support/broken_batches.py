"""Batches with a correct CRC that some consumer cannot read, and Kafka 4.3.1's response to each.

A broken record is tested in every codec; a broken stream of a codec alone. `kafka` is the error
with which Apache Kafka 4.3.1 answered these bytes (Produce v9), `code` is ours where it differs. We
refuse what Kafka accepts if a Java consumer or the codec of this package stops at it: Kafka skips
compressed records by their fields without comparing those with the record's length, and does not
check offsets of plain records. Where Kafka fails by accident, our error names the fault.
"""

import gzip
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import cramjam
import xxhash

from tests.support.wire_records import CODECS, TIMESTAMP, Batch, encode_records, field, varint

NONE = 0
UNKNOWN_SERVER_ERROR = -1
INVALID_RECORD = 87
SOUND: Final = encode_records([b"first", b"second", b"third"])
SOUND_COUNT = 3


class Case(NamedTuple):
    """A batch, what Kafka answers, and what we do."""

    codec: str  # "xerial": snappy in the framing of Java clients
    payload: bytes  # after the batch header, compressed
    counted: int  # in the header
    kafka: int
    code: int

    def batch(self, timestamp: int = TIMESTAMP) -> bytes:
        """Return the bytes."""
        return Batch(
            payload=self.payload,
            count=self.counted,
            last_offset_delta=self.counted - 1,
            attributes=NUMBERS[self.codec],
            timestamp=timestamp,
        ).encode()


# ---- records -------------------------------------------------------------------------------------


def record(body: bytes, length: int | None = None) -> bytes:
    """Return a record of any body with a length, by default its own."""
    return varint(len(body) if length is None else length) + body


def fields(
    *,
    time: bytes = b"\x00",
    place: bytes = b"\x00",
    key: bytes = field(b"key"),
    value: bytes = field(b"value"),
    headers: bytes = b"\x00",
) -> bytes:
    """Return the part of a record after its length; every field may be wrong."""
    return b"\x00" + time + place + key + value + headers


def one(**parts: bytes) -> bytes:
    """Return a record of these fields."""
    return record(fields(**parts))


def headers(count: int, *parts: bytes) -> bytes:
    """Return a header count and the bytes after it."""
    return varint(count) + b"".join(parts)


class _Records(NamedTuple):
    records: bytes
    counted: int = 1
    plain: int = INVALID_RECORD  # Kafka's answer
    compressed: int = INVALID_RECORD  # the same when they are compressed


SECOND = one(place=varint(1))
NAME = field(b"name")
RECORDS: Final[dict[str, _Records]] = {
    "garbage in a record": _Records(record(b"\xff" * 40)),
    "no records": _Records(b""),
    "a key beyond its record": _Records(one(key=varint(5_000) + b"key")),
    "a key beyond the numbers": _Records(one(key=varint(2**31 - 1))),
    "a value beyond its record": _Records(one(value=varint(5_000) + b"v")),
    "a value that takes the next record": _Records(
        one(value=varint(len(SECOND)), headers=b"") + SECOND, 2
    ),
    "a length beyond the batch": _Records(record(fields(), 5_000), compressed=NONE),
    "a length beyond the numbers": _Records(record(fields(), 2**31 - 1), compressed=NONE),
    "a negative length": _Records(record(fields(), -1), compressed=NONE),
    "a length of nothing": _Records(record(b"")),
    "a length below the fields": _Records(
        record(fields(), len(fields()) - 2) + SECOND, 2, compressed=NONE
    ),
    "a length above the fields": _Records(record(fields() + bytes(2)) + SECOND, 2),
    "bytes behind the last record": _Records(SOUND + b"\x00", SOUND_COUNT),
    "fewer records than counted": _Records(SOUND, SOUND_COUNT + 1),
    "more records than counted": _Records(SOUND, SOUND_COUNT - 1),
    "a negative number of headers": _Records(one(headers=headers(-1))),
    "more headers than bytes": _Records(one(headers=headers(5_000))),
    "more headers than are there": _Records(one(headers=headers(2, NAME, field(b"v")))),
    "a header without a name": _Records(one(headers=headers(1, field(None), field(b"v")))),
    "a header's name beyond its record": _Records(one(headers=headers(1, varint(5_000) + b"n"))),
    "a header's value beyond its record": _Records(one(headers=headers(1, NAME, varint(5_000)))),
    "a length of too many bytes": _Records(
        b"\x80" * 5 + b"\x00" + fields(), plain=UNKNOWN_SERVER_ERROR
    ),
    "an offset of too many bytes": _Records(one(place=b"\x80" * 5 + b"\x00")),
    "a time of too many bytes": _Records(one(time=b"\x80" * 10 + b"\x00")),
    "an offset of more than 32 bits": _Records(
        one(place=b"\x80" * 4 + b"\x70"), plain=NONE, compressed=NONE
    ),
    "an offset that is not the first": _Records(
        one(place=varint(1)), plain=NONE, compressed=UNKNOWN_SERVER_ERROR
    ),
    "the same offset twice": _Records(one() * 2, 2, plain=NONE, compressed=UNKNOWN_SERVER_ERROR),
    "offsets that go down": _Records(
        SECOND + one(), 2, plain=NONE, compressed=UNKNOWN_SERVER_ERROR
    ),
    "a key of a length below null": _Records(one(key=varint(-2)), plain=NONE, compressed=NONE),
    "a value of a length below null": _Records(one(value=varint(-2)), plain=NONE, compressed=NONE),
}


# ---- codecs --------------------------------------------------------------------------------------


def xerial(data: bytes) -> bytes:
    """Return snappy in the framing of Java's clients."""
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def lz4_frame(*blocks: bytes, flags: int = 0x60, checksum: int | None = None) -> bytes:
    """Return an lz4 frame of these stored blocks, with its flags and its header's checksum."""
    descriptor = bytes([flags, 0x40])
    if checksum is None:
        checksum = xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF
    head = LZ4_MAGIC + descriptor + bytes([checksum])
    stored = b"".join(struct.pack("<I", len(each) | 1 << 31) + each for each in blocks)
    return head + stored + bytes(4)


LZ4_MAGIC = b"\x04\x22\x4d\x18"
OLD_CHECKSUM = xxhash.xxh32_intdigest(LZ4_MAGIC + b"\x60\x40") >> 8 & 0xFF  # of magic 0
NUMBERS: Final = {**CODECS, "xerial": CODECS["snappy"]}
COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "xerial": xerial,
    "lz4": lz4_frame,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def _streams() -> dict[str, Case]:
    found: dict[str, Case] = {}

    def put(name: str, codec: str, payload: bytes, kafka: int, code: int | None = None) -> None:
        ours = kafka if code is None else code
        found[name] = Case(codec, payload, SOUND_COUNT, kafka, ours)

    bad = UNKNOWN_SERVER_ERROR
    for codec, compress in COMPRESS.items():
        whole = compress(SOUND)
        put(f"{codec} that is none", codec, b"\xffnothing of the kind" * 9, bad)
        put(f"{codec} cut short", codec, whole[:-5], bad)
        put(f"{codec} cut in half", codec, whole[: len(whole) // 2], bad)
        put(f"{codec} of no bytes", codec, b"", INVALID_RECORD if codec == "zstd" else bad, bad)
        put(f"{codec} of nothing", codec, compress(b""), INVALID_RECORD)
        # Kafka does not look behind the first lz4 frame, and Java not behind garbage in gzip.
        unseen = codec in {"gzip", "lz4"}
        put(f"{codec} and garbage", codec, whole + b"garbage", NONE if unseen else bad, bad)
        put(f"sound {codec}", codec, whole, NONE)
    packed = gzip.compress(SOUND)
    put("gzip with a wrong checksum", "gzip", packed[:-8] + bytes(4) + packed[-4:], bad)
    put("gzip with a wrong size", "gzip", packed[:-4] + bytes(4), bad)
    put("gzip of two members", "gzip", gzip.compress(SOUND[:9]) + gzip.compress(SOUND[9:]), NONE)
    put("lz4 with a wrong header", "lz4", lz4_frame(SOUND, checksum=0), bad)
    put("lz4 with the header of magic 0", "lz4", lz4_frame(SOUND, checksum=OLD_CHECKSUM), bad)
    put("lz4 with linked blocks", "lz4", lz4_frame(SOUND, flags=0x40), bad)
    halves = SOUND[:9], SOUND[9:]
    put("lz4 of two blocks", "lz4", lz4_frame(*halves), NONE)
    put("lz4 of two frames", "lz4", b"".join(map(lz4_frame, halves)), INVALID_RECORD, bad)
    put("zstd of two frames", "zstd", b"".join(map(COMPRESS["zstd"], halves)), NONE)
    put("xerial of two streams", "xerial", b"".join(map(xerial, halves)), NONE)
    return found


def _cases() -> dict[str, Case]:
    found: dict[str, Case] = {"sound none": Case("none", SOUND, SOUND_COUNT, NONE, NONE)}
    for name, (records, count, plain, compressed) in RECORDS.items():
        found[f"{name}, none"] = Case("none", records, count, plain, INVALID_RECORD)
        for codec, compress in COMPRESS.items():
            found[f"{name}, {codec}"] = Case(
                codec, compress(records), count, compressed, INVALID_RECORD
            )
    return {**found, **_streams()}


CASES: Final = _cases()
