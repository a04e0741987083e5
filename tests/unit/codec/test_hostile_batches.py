"""Malicious bytes: records, or a CodecError, fast and in little memory."""

import contextlib
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from broker.codec import (
    CodecError,
    Corrupt,
    LimitExceeded,
    audit,
    compression,
    decode_columns,
    records,
    scan_headers,
    validate,
)
from tests.oracles import message_set_oracle as message_set
from tests.oracles import records_oracle
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Header, Record, varint
from tests.oracles.records_oracle import Row, WrongBytesError
from tests.support.record_bytes import (
    CODECS,
    COLUMNS,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    objects,
    record,
    rows,
    some,
    wrapper,
)

PLAIN = {
    "batch": batch(
        [
            Record(0, 0, b"key", b"value", [(b"name", b"content"), (b"", None)]),
            Record(300, 1, None, None, []),
            Record(-300, 70, b"", b"x" * 70, []),
        ],
        7,
    ),
    "magic 0": message_set.encode([Message(0, b"key", b"value", magic=0), Message(1, magic=0)]),
    "magic 1": message_set.encode([Message(0, b"key", b"value", timestamp=5), Message(1)]),
}
COMPRESSED = {
    f"{name}, {codec}": compressed
    for codec in CODECS
    for name, compressed in {
        "batch": batch([record(i, b"key", b"value") for i in range(5)], codec=codec),
        "magic 0": wrapper([Message(i, b"key", b"value", magic=0) for i in range(3)], codec),
        "magic 1": wrapper([Message(i, b"key", b"value") for i in range(3)], codec),
    }.items()
    if codec != ZSTD or name == "batch"
}


def read(data: bytes, **options: Any) -> list[Row] | None:
    """Return the rows of the bytes, None when they are refused."""
    try:
        return rows(decode_columns(data, columns=COLUMNS, **options))
    except CodecError as error:
        fault = error
    assert fault.position is not None
    assert 0 <= fault.position < len(data)
    return None


def read_plainly(data: bytes, *, with_headers: bool = True) -> list[Row] | None:
    """Return the rows that the oracle reads, None when it refuses them."""
    try:
        return records_oracle.read(data, with_headers=with_headers)[0]
    except WrongBytesError:
        return None


def read_all(data: bytes) -> None:
    """Read by every other function; only a CodecError may be raised."""
    faults = []
    for call in (objects, scan_headers, audit, validate):
        try:
            call(data)
        except CodecError as error:
            faults.append(error)
    assert all(0 <= (len(data) if at is None else at) < len(data) for at in map(position, faults))


def position(fault: CodecError) -> int | None:
    """Return the position of an error."""
    return fault.position


# ---- cut and changed -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PLAIN, *COMPRESSED])
def test_truncated_bytes_give_the_complete_batches(name: str) -> None:
    data = (PLAIN | COMPRESSED)[name] * 2
    whole = read(data)
    assert whole is not None

    for size in range(len(data)):
        found = read(data[:size])
        assert found is not None
        assert found == whole[: len(found)]
        read_all(data[:size])


@pytest.mark.parametrize("name", PLAIN)
def test_with_any_byte_changed_the_rows_equal_the_oracles(name: str) -> None:
    data = PLAIN[name]

    for place in range(len(data)):
        for change in (1, 2, 0x7F, 0x80, 0xFF, *random.Random(place).sample(range(256), 10)):
            changed = bytearray(data)
            changed[place] ^= change
            found = read(bytes(changed), check_crc=False, bytes_max=1 << 20)
            assert found == read_plainly(bytes(changed)) or has_codec(changed)


def test_headers_that_are_not_requested_are_skipped() -> None:
    data = PLAIN["batch"]

    for place in range(61, len(data)):
        for change in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            expected = read_plainly(bytes(changed), with_headers=False)
            try:
                found = len(decode_columns(changed, columns=["offset"], check_crc=False))
            except CodecError:
                assert expected is None
            else:
                assert expected is not None
                assert found == len(expected)


@pytest.mark.parametrize("name", [*PLAIN, *COMPRESSED])
def test_with_any_byte_under_the_crc_changed_the_bytes_are_refused(name: str) -> None:
    data = (PLAIN | COMPRESSED)[name]
    (entry, *_) = scan_headers(data)

    for place in range(17, entry.size):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        assert read(bytes(changed)) is None


@pytest.mark.parametrize("name", COMPRESSED)
def test_with_any_compressed_byte_changed_there_are_rows_or_an_error(name: str) -> None:
    data = COMPRESSED[name]

    for place in range(len(data)):
        for change in (1, 0x80, 0xFF, 1 + place % 255):
            changed = bytearray(data)
            changed[place] ^= change
            read(bytes(changed), check_crc=False, bytes_max=1 << 20)


@pytest.mark.parametrize("size", [10, 61, 100, 300])
def test_random_bytes_are_rows_or_an_error(size: int) -> None:
    noise = random.Random(size)

    for _ in range(1000):
        data = bytearray(noise.randbytes(size))
        if size > 20:
            data[8:12] = struct.pack(">i", noise.randrange(size))
            data[16] = noise.randrange(4)
        found = read(bytes(data), check_crc=False, bytes_max=1 << 20)
        assert found == read_plainly(bytes(data)) or has_codec(data)
        read_all(bytes(data))


def has_codec(data: bytearray) -> bool:
    """Return whether an entry claims to be compressed, which the oracle does not support."""
    return any(entry.attributes & 7 for entry in scan_headers(data))


@pytest.mark.parametrize("codec", CODECS)
def test_random_records_in_a_valid_batch_are_rows_or_an_error(codec: int) -> None:
    noise = random.Random(codec)

    for size in range(300):
        content = noise.randbytes(size)
        header = Header(attributes=codec, record_count=noise.randrange(5))
        read_all(header.encode(compression.compress(codec, content)))
        read_all(header.encode(content))


# ---- time ----------------------------------------------------------------------------------------


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, whatever it raises."""
    start = time.process_time()
    with contextlib.suppress(CodecError):
        call()
    return time.process_time() - start


def ways(data: bytes) -> list[Callable[[], object]]:
    """Return all functions that read the bytes."""
    return [
        lambda: decode_columns(data, columns=COLUMNS),
        lambda: decode_columns(data, aborted=[(i, i) for i in range(1000)]),
        lambda: decode_columns(data, min_offset=5, key_filter=[b"key"]),
        lambda: list(records(data)),
        lambda: scan_headers(data),
        lambda: audit(data),
        lambda: validate(data),
    ]


NOTHING = compression.compress(GZIP, b"")


def of_headers(count: int) -> bytes:
    """Return a batch of one record with only the smallest headers."""
    body = b"\0\0\0\1\1" + varint(count) + b"\0\1" * count
    return Header().encode(varint(len(body)) + body)


MANY = {
    "empty batches": batch([]) * 100_000,
    "batches of one": some(1) * 60_000,
    "empty messages": Message().encode() * 200_000,
    "a record of nothing but headers": of_headers(1_000_000),
    "records of one header": Header(record_count=300_000).encode(
        Record(0, 0, None, None, [(b"", None)]).encode() * 300_000
    ),
    "control batches": some(1, attributes=0x30, producer_id=5) * 60_000,
    "compressed batches of nothing": Header(attributes=GZIP, record_count=0).encode(NOTHING)
    * 20_000,
    "wrappers of one message": wrapper([Message()], GZIP) * 10_000,
    "one more byte than a batch": batch([]) * 1000 + bytes(60),
    "a large batch that is cut short": some(1, length=1 << 29) + bytes(5_000_000),
}


@pytest.mark.parametrize("name", MANY)
def test_time_grows_at_most_linearly_with_the_bytes(name: str) -> None:
    data = MANY[name]

    # A megabyte of the smallest items takes a second at most, usually a twentieth.
    for call in ways(data):
        assert seconds(call) < 0.5 + len(data) / 2e6 * 3


@pytest.mark.parametrize("name", ["empty batches", "wrappers of one message"])
def test_twice_the_bytes_take_twice_the_time(name: str) -> None:
    data = MANY[name][: len(MANY[name]) // 8]
    for small, large in zip(ways(data), ways(data * 4), strict=True):
        few = min(seconds(small) for _ in range(3))
        many = min(seconds(large) for _ in range(3))

        assert many < 16 * few + 0.1


# ---- memory --------------------------------------------------------------------------------------

MEASURED = """
import resource, sys
from broker import codec
from broker.codec.compression import decompress

data = sys.stdin.buffer.read()
for number in (1, 2, 3, 4):  # what the libraries take when they are first used is not counted
    try:
        decompress(number, bytes(20), 10)
    except codec.CodecError:
        pass
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
allowed = used + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
try:
    {call}
except codec.CodecError as error:
    print(type(error).__name__)
else:
    print("read")
"""
MIB = 1 << 20


def within(size: int, data: bytes, call: str) -> str:
    """Return the result of a call that may map that many bytes of memory."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURED.format(call=call), str(size)],
        input=data,
        capture_output=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout.decode().strip()


COLUMNS_CALL = f"codec.decode_columns(data, columns={COLUMNS}, bytes_max={4 * MIB})"
RECORDS_CALL = f"list(codec.records(data, bytes_max={4 * MIB}))"
CALLS = [
    COLUMNS_CALL,
    "codec.decode_columns(data, columns=['offset'], check_crc=False)",
    RECORDS_CALL,
    f"codec.validate(data, bytes_max={4 * MIB})",
    "codec.audit(data)",
    "codec.scan_headers(data)",
]
LIES = {
    "a count": some(2, record_count=2**31 - 1),
    "a count, compressed": some(2, codec=GZIP, record_count=2**31 - 1),
    "a length": some(2, length=2**30) + bytes(1000),
    "a length of a record": Header().encode(varint(2**31 - 1) + bytes(100)),
    "a number of headers": Header().encode(
        varint(50) + b"\0\0\0\1\1" + varint(2**31 - 1) + bytes(50)
    ),
    "a length of a message": Message(size=2**30).encode() + bytes(1000),
    "a key of a message": Message().encode()[:26] + b"\x7f\xff\xff\xff" + b"\xff" * 4,
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("call", CALLS)
def test_a_false_count_or_length_allocates_no_memory(name: str, call: str) -> None:
    assert within(16 * MIB, LIES[name], call) in {"Corrupt", "Truncated", "read"}


@cache
def large_batch(codec: int) -> bytes:
    content = record(0, None, bytes(64 * MIB)).encode()
    return Header(attributes=codec).encode(compression.compress(codec, content))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("call", [COLUMNS_CALL, RECORDS_CALL])
def test_a_batch_that_decompresses_above_the_limit_takes_no_more_memory(
    codec: int, call: str
) -> None:
    # Twice the limit while the buffer grows, and zstd's window.
    assert within(32 * MIB, large_batch(codec), call) == "LimitExceeded"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_message_that_decompresses_above_the_limit_takes_no_more_memory(codec: int) -> None:
    data = wrapper([Message(0, None, bytes(64 * MIB))], codec)

    assert within(32 * MIB, data, COLUMNS_CALL) == "LimitExceeded"


@pytest.mark.parametrize("codec", CODECS)
def test_many_batches_share_the_limit(codec: int) -> None:
    data = batch([record(0, None, bytes(1 << 20))], codec=codec)
    size = len(batch([record(0, None, bytes(1 << 20))])) - 61

    assert len(decode_columns(data * 4, bytes_max=4 * size)) == 4
    with pytest.raises(LimitExceeded) as caught:
        decode_columns(data * 4, bytes_max=4 * size - 1)
    assert caught.value.position == 3 * len(data)


def test_the_smallest_records_take_a_known_number_of_bytes() -> None:
    count = 300_000
    data = Header(record_count=count).encode(Record(0, 0, None, None, []).encode() * count)
    assert len(data) == 61 + 7 * count

    # 53 bytes of arrays for the 7 bytes of a record.
    assert within(53 * count + 4 * MIB, data, COLUMNS_CALL) == "read"


def test_empty_headers_take_a_known_number_of_bytes() -> None:
    count = 500_000
    data = of_headers(count)

    # 16 bytes of arrays for the 2 bytes of a header; while they grow, the old ones too.
    assert within(3 * 16 * count + 4 * MIB, data, COLUMNS_CALL) == "read"


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [1, 100])
def test_the_limit_is_exact(codec: int, count: int) -> None:
    parts = [record(i, b"key", bytes(1000)) for i in range(count)]
    data = batch(parts, codec=codec)
    size = len(batch(parts)) - 61

    assert len(decode_columns(data, bytes_max=size)) == count
    for limit in (size - 1, size // 2, 1, 0):
        with pytest.raises(LimitExceeded, match=f"more than the {limit} bytes allowed"):
            decode_columns(data, bytes_max=limit)


def test_uncompressed_batches_are_not_limited() -> None:
    small = batch([record(0, None, b"v")], codec=GZIP)

    data = some(500) + small + some(500)

    assert len(decode_columns(data, bytes_max=len(small))) == 1001
    assert len(decode_columns(some(500), bytes_max=0)) == 500


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("ratio", [10, 17, 1000])
def test_highly_compressed_batches_within_the_limit_are_decompressed(
    codec: int, ratio: int
) -> None:
    value = random.Random(1).randbytes(100) * ratio
    data = some(3) + batch([record(0, None, value)] * 3, 3, codec=codec) + some(3, 6)

    found = rows(decode_columns(data * 3, columns=COLUMNS))

    assert [row.value for row in found if row.offset == 3] == [value] * 9
    assert len(found) == 27


def test_rows_beyond_the_first_estimate_are_kept() -> None:
    parts = [Record(0, i, None, None, []) for i in range(50_000)]

    for codec in CODECS:
        columns = decode_columns(some(3) + batch(parts, 3, codec=codec) + some(3, 60_000))
        assert list(memoryview(columns.column("offset"))) == [
            *range(50_003),
            *range(60_000, 60_003),
        ]


def test_nested_wrappers_are_refused_at_once() -> None:
    data = wrapper([Message(0, None, bytes(1 << 20))])
    for _ in range(20):
        value = compression.compress(GZIP, data)
        data = Message(0, None, value, attributes=GZIP).encode()

    with pytest.raises(Corrupt, match="inner message 0 of magic 1 with attributes 1"):
        decode_columns(data)


def test_more_than_2_gib_at_once_is_a_limit_error() -> None:
    for call in (decode_columns, validate):
        with pytest.raises(LimitExceeded, match="below 2 GiB"):
            call(bytes(2**31))
