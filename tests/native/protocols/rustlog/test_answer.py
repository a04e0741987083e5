"""RustLog's answers to Fetch (protocols/rustlog/answer): what is cut where, in both forms."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.rustlog.answer import FetchAnswerWriter
from broker.codec import encode
from broker.codec.compression import decompress

FRAME_MAX = 10_485_760
HEADER = 61
VALUES = st.lists(st.none() | st.binary(max_size=50), min_size=1, max_size=30)


def batch(values: list[bytes | None], base_offset: int = 0, compression: str = "none") -> bytes:
    """Return records as one batch."""
    [found] = encode(
        [(None, each) for each in values],
        base_offset=base_offset,
        compression=compression,
        timestamp_ms=1,
    )
    return found


def binary(body: bytes) -> tuple[list[bytes], int]:
    """Parse a response: values and next offset, as the original's clients do."""
    assert body[0] == 2
    (count,) = struct.unpack_from(">I", body, 1)
    position, values = 5, []
    for _ in range(count):
        (size,) = struct.unpack_from(">I", body, position)
        values.append(body[position + 4 : position + 4 + size])
        position += 4 + size
    assert len(body) == position + 8
    return values, struct.unpack_from(">Q", body, position)[0]


def answered(answer: FetchAnswerWriter) -> tuple[list[bytes], int]:
    """Finish a binary response and parse it."""
    return binary(answer.finish(answer.next_offset))


@given(VALUES, st.integers(0, 2**62))
def test_binary_and_json_forms_return_the_same_records(
    values: list[bytes | None], offset: int
) -> None:
    short = FetchAnswerWriter(offset, 1 << 20, is_json=False)
    text = FetchAnswerWriter(offset, 1 << 20, is_json=True)
    for each in (short, text):
        each.add(batch(values, offset))
    end = offset + len(values)

    assert answered(short) == ([each or b"" for each in values], end)
    assert (
        text.finish(end)
        == json.dumps(
            {
                "Fetch": {
                    "records": [
                        {"offset": offset + i, "payload": list(each or b"")}
                        for i, each in enumerate(values)
                    ],
                    "next_offset": end,
                }
            },
            separators=(",", ":"),
        ).encode()
    )


@given(VALUES, st.data())
def test_records_before_the_requested_offset_are_omitted(
    values: list[bytes | None], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    answer = FetchAnswerWriter(first, 1 << 20, is_json=False)
    answer.add(batch(values))

    assert answered(answer) == ([each or b"" for each in values[first:]], len(values))


@pytest.mark.parametrize(("bytes_max", "count"), [(1, 1), (24, 1), (25, 2), (37, 2), (38, 3)])
def test_max_bytes_counts_twelve_more_bytes_per_record_in_the_binary_form(
    bytes_max: int, count: int
) -> None:
    answer = FetchAnswerWriter(0, bytes_max, is_json=False)
    answer.add(batch([b"x", b"", b"y"]))

    assert answer.count == count
    assert answer.next_offset == count


@pytest.mark.parametrize(("bytes_max", "count"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_max_bytes_counts_the_payload_in_json(bytes_max: int, count: int) -> None:
    answer = FetchAnswerWriter(0, bytes_max, is_json=True)
    answer.add(batch([b"x", b"y", b"z"]))

    assert answer.count == count


def test_the_binary_form_stops_at_a_gap_and_json_does_not() -> None:
    short = FetchAnswerWriter(0, 1 << 20, is_json=False)
    text = FetchAnswerWriter(0, 1 << 20, is_json=True)
    for each in (short, text):
        each.add(batch([b"a"]))
        each.add(batch([b"c"], 2))

    assert (short.status, short.count, short.next_offset) == ("gap", 1, 1)
    assert (text.status, text.count, text.next_offset) == ("open", 2, 3)


def test_a_binary_response_that_begins_in_a_gap_names_the_first_available_offset() -> None:
    answer = FetchAnswerWriter(0, 1 << 20, is_json=False)
    answer.add(batch([b"c"], 5))

    assert (answer.status, answer.count, answer.next_offset) == ("gap", 0, 5)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_returned_decompressed(compression: str) -> None:
    data = batch([b"a" * 500, b"b"], compression=compression)
    answer = FetchAnswerWriter(0, 1 << 20, is_json=False)
    answer.add(data, decompress(data[22] & 7, data[HEADER:], 1 << 20))

    assert answered(answer) == ([b"a" * 500, b"b"], 2)


@given(VALUES, st.data())
def test_a_damaged_batch_is_detected(values: list[bytes | None], data: st.DataObject) -> None:
    damaged = bytearray(batch(values))
    damaged[data.draw(st.integers(21, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    answer = FetchAnswerWriter(0, 1 << 20, is_json=False)
    answer.add(bytes(damaged))

    assert answer.status == "corrupt"


@pytest.mark.parametrize("is_json", [False, True])
def test_a_response_is_never_longer_than_a_frame(is_json: bool) -> None:
    answer = FetchAnswerWriter(0, 2**63, is_json=is_json)
    for number in range(200):
        answer.add(batch([b"\xff" * 100_000], number))

    assert answer.status == "full"
    body = answer.finish(answer.next_offset)
    assert FRAME_MAX - 410_000 < len(body) <= FRAME_MAX


@pytest.mark.parametrize(("is_json", "size"), [(False, FRAME_MAX - 16), (True, 3_000_000)])
def test_a_record_too_large_for_any_frame_is_reported(is_json: bool, size: int) -> None:
    answer = FetchAnswerWriter(4, 2**63, is_json=is_json)
    answer.add(batch_of_any_size(b"\xff" * size, 4))

    assert (answer.status, answer.count, answer.next_offset) == ("too large", 0, 4)


@pytest.mark.parametrize("size", [FRAME_MAX - 17])
def test_the_largest_record_that_fits_a_frame_is_returned(size: int) -> None:
    answer = FetchAnswerWriter(4, 2**32 - 1, is_json=False)
    answer.add(batch_of_any_size(bytes(size), 4))

    assert len(answer.finish(answer.next_offset)) == FRAME_MAX


def batch_of_any_size(value: bytes, base_offset: int) -> bytes:
    """Return one record as a batch, however large."""
    [found] = encode([value], base_offset=base_offset, batch_bytes_max=1 << 28, timestamp_ms=1)
    return found
