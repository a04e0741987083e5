"""Cursus's batch: both layouts to rows and back, and invalid ones."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.cursus.batch import CursusBatch, sequence_of
from broker._native.protocols.cursus.frames import CursusFrame
from broker.codec import encode
from broker.model.errors import CodecError, LimitExceeded
from tests.support.cursus_client import Message, batch, read_batch

FULL = Message(b"hi", 1, b"p", b"k", -5, b"made", 3, 1 << 63, b"{}")
UINT64 = st.integers(0, (1 << 64) - 1)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=40),
    UINT64,
    st.binary(max_size=5),
    st.binary(max_size=5),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.binary(max_size=5),
    st.integers(0, (1 << 32) - 1),
    UINT64,
    st.binary(max_size=5),
    st.just(0),
)
HEADER = 61
LAYOUTS = pytest.mark.parametrize("is_original", [False, True])


def written(rows: list[Any], *, is_original: bool = False) -> bytes:
    frame = CursusFrame(b"t", 2, is_original=is_original, bytes_max=1 << 20, records_max=1000)
    for each in encode(rows, timestamp_ms=0, batch_bytes_max=1 << 20):
        assert frame.add(each, each[HEADER:], 0) == "open"
    return frame.take()


@LAYOUTS
def test_the_documented_example_is_read(is_original: bool) -> None:
    message = Message(b"hi", 1, b"p", b"k", 5)
    body = batch("t", 2, [message], is_original=is_original)
    assert len(body) == 84
    expected = "0001320001" if is_original else "0000000201"
    assert body.hex().startswith(f"ba7c000174{expected}")

    found = CursusBatch(body)

    assert (found.topic, found.partition, found.acks) == (b"t", 2, b"1")
    assert (found.seq_start, found.seq_end, found.count) == (1, 1, 1)
    assert (found.producer_id, found.epoch) == (b"p", 5)
    assert found.is_original is is_original


def test_a_record_becomes_a_row_with_headers_for_fields_that_kafka_lacks() -> None:
    (row,) = CursusBatch(batch("t", 0, [FULL])).rows(10)

    assert row == (
        b"k",
        b"hi",
        [
            (b"cursus.producer_id", b"p"),
            (b"cursus.seq_num", b"1"),
            (b"cursus.epoch", b"-5"),
            (b"cursus.event_type", b"made"),
            (b"cursus.schema_version", b"3"),
            (b"cursus.aggregate_version", b"9223372036854775808"),
            (b"cursus.metadata", b"{}"),
        ],
    )


def test_empty_and_zero_fields_have_no_header_and_an_empty_key_is_null() -> None:
    assert CursusBatch(batch("t", 0, [Message(b"")])).rows(10) == [(None, b"", None)]


def test_rows_are_taken_in_order_a_limited_number_at_a_time() -> None:
    found = CursusBatch(batch("t", 0, [Message(b"%d" % i) for i in range(5)]))

    taken = [[row[1] for row in found.rows(2)] for _ in range(4)]

    assert taken == [[b"0", b"1"], [b"2", b"3"], [b"4"], []]


@given(messages=st.lists(MESSAGES, max_size=5), is_original=st.booleans())
def test_a_record_is_returned_as_it_was_sent(messages: list[Message], is_original: bool) -> None:
    rows = CursusBatch(batch("t", 2, messages, is_original=is_original)).rows(100)

    answer = read_batch(written(rows, is_original=is_original), is_original=is_original)

    assert (answer.topic, answer.partition, answer.acks) == (b"t", 2, b"1")
    assert answer.messages == [
        message._replace(offset=offset) for offset, message in enumerate(messages)
    ]
    if messages:
        assert (answer.seq_start, answer.seq_end) == (messages[0].seq, messages[-1].seq)


@LAYOUTS
def test_a_batch_truncated_anywhere_is_refused(is_original: bool) -> None:
    body = batch("topic", 3, [FULL, FULL], is_original=is_original)

    for size in range(len(body)):
        with pytest.raises(CodecError):
            CursusBatch(body[:size])


@LAYOUTS
def test_a_batch_with_trailing_bytes_is_refused(is_original: bool) -> None:
    with pytest.raises(CodecError, match="follows the last record"):
        CursusBatch(batch("t", 0, [FULL], is_original=is_original) + b"\0")


@pytest.mark.parametrize("count", [-1, 3, 100_001, (1 << 31) - 1])
def test_an_impossible_record_count_is_refused(count: int) -> None:
    with pytest.raises(CodecError):
        CursusBatch(batch("t", 0, [FULL, FULL], count=count))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_batch_or_refused(data: bytes) -> None:
    for body in (data, b"\xba\x7c" + data, b"\xba\x7c\0\x01t\0\0\0\0\x011\0" + data):
        try:
            found = CursusBatch(body)
        except CodecError:
            continue
        assert len(found.rows(1 << 20)) == found.count


@pytest.mark.parametrize("partition", [0, 1, 9, 10, 255, 256, 9_999, 65_535])
@pytest.mark.parametrize("acks", [b"", b"0", b"1", b"-1", b"all"])
@LAYOUTS
def test_the_layouts_are_distinguished(partition: int, acks: bytes, is_original: bool) -> None:
    for messages in ([], [Message(b"")], [FULL] * 3):
        found = CursusBatch(batch("t", partition, messages, acks=acks, is_original=is_original))

        assert (found.partition, found.acks, found.is_original) == (partition, acks, is_original)


def test_a_run_is_consecutive_sequences_of_one_producer() -> None:
    def run(*messages: tuple[bytes, int, int]) -> list[tuple[bytes, int, int, int, int]]:
        content = [Message(b"", seq, name, epoch=epoch) for name, epoch, seq in messages]
        return CursusBatch(batch("t", 0, content)).runs(10)

    assert run() == []
    assert run((b"p", 1, 1), (b"p", 1, 2), (b"p", 1, 3)) == [(b"p", 1, 1, 3, 3)]
    assert run((b"p", 1, 1), (b"p", 1, 3)) == [(b"p", 1, 1, 1, 1), (b"p", 1, 3, 3, 1)]
    assert run((b"p", 1, 1), (b"p", 2, 2)) == [(b"p", 1, 1, 1, 1), (b"p", 2, 2, 2, 1)]
    assert run((b"p", 1, 1), (b"q", 1, 2)) == [(b"p", 1, 1, 1, 1), (b"q", 1, 2, 2, 1)]
    unchecked = run((b"p", 1, 0), (b"", 1, 7), (b"p", 1, 1))
    assert [each[2:] for each in unchecked] == [(0, 0, 2), (1, 1, 1)]


def test_the_number_of_runs_is_limited() -> None:
    found = CursusBatch(batch("t", 0, [Message(b"", 7, b"p")] * 20))

    with pytest.raises(LimitExceeded):
        found.runs(10)


# ---- responses ---------------------------------------------------------------------------------


def test_a_response_without_records_is_a_batch() -> None:
    answer = read_batch(written([]))

    assert (answer.seq_start, answer.seq_end, answer.messages) == (0, 0, [])


def test_a_value_too_long_for_its_field_reads_as_empty() -> None:
    answer = written(
        [
            (b"k" * 65_536, None, None),
            (b"k" * 65_535, b"v", [("cursus.metadata", b"m" * 65_536), ("other", b"x")]),
        ]
    )

    first, second = read_batch(answer).messages

    assert first == Message(b"")
    assert second == Message(b"v", key=b"k" * 65_535, offset=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seq_num", b"18446744073709551616"),
        ("seq_num", b"-1"),
        ("seq_num", b"1x"),
        ("seq_num", b""),
        ("seq_num", None),
        ("epoch", b"9223372036854775808"),
        ("epoch", b"-9223372036854775809"),
        ("epoch", b"-"),
        ("schema_version", b"4294967296"),
        ("aggregate_version", b"1" * 100),
        ("producer_id", None),
    ],
)
def test_an_invalid_value_in_a_foreign_header_is_ignored(name: str, value: bytes | None) -> None:
    answer = written([(None, b"v", [(f"cursus.{name}", value)])])

    assert read_batch(answer).messages == [Message(b"v")]


def test_the_extreme_values_of_a_numeric_header_are_read() -> None:
    lowest, highest = b"-9223372036854775808", b"9223372036854775807"
    rows = [(None, b"", [("cursus.epoch", value)]) for value in (lowest, highest)]

    assert [each.epoch for each in read_batch(written(rows)).messages] == [
        -(1 << 63),
        (1 << 63) - 1,
    ]


def test_a_sequence_needs_a_producer_and_is_not_zero() -> None:
    producer, sequence = (b"cursus.producer_id", b"p"), (b"cursus.seq_num", b"7")

    assert sequence_of([producer, sequence]) == (b"p", 0, 7)
    assert sequence_of([producer, sequence, (b"cursus.epoch", b"-2")]) == (b"p", -2, 7)
    assert sequence_of([producer]) is None
    assert sequence_of([sequence]) is None
    assert sequence_of([]) is None


def test_a_topic_name_too_long_for_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="65536"):
        CursusFrame(b"t" * 65_536, 0, is_original=False, bytes_max=1, records_max=1)


def test_numbers_in_the_header_are_unsigned() -> None:
    body = bytearray(batch("t", 0, []))
    struct.pack_into(">QQ", body, len(body) - 20, (1 << 64) - 1, 1 << 63)

    found = CursusBatch(bytes(body))

    assert (found.seq_start, found.seq_end) == ((1 << 64) - 1, 1 << 63)
