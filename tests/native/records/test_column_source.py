"""Columns with false contents: read within their buffers, or refused with the row."""

import array
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.records.batch_encoder import BatchEncoder
from broker._native.records.column_source import ColumnSource
from broker.model.errors import Corrupt, LimitExceeded
from tests.support.batches import records_of

DATA = bytes(range(16))
EDGES = [-(2**31), -2, -1, 0, 1, 15, 16, 17, 2**31 - 1]
LONG_EDGES = [*EDGES, -(2**63), 2**31, 2**32 + 1, 2**63 - 1]
EDGE = st.sampled_from(EDGES) | st.integers(-3, 20)
LONG_EDGE = st.sampled_from(LONG_EDGES) | st.integers(-3, 20)


def int32(*values: int) -> "array.array[int]":
    return array.array("i", values)


def int64(*values: int) -> "array.array[int]":
    return array.array("q", values)


def encoded(source: ColumnSource) -> list[tuple[Any, ...]]:
    encoder = BatchEncoder(batch_bytes_max=1 << 20, timestamp=0)
    encoder.append_columns(source)
    return [record for batch in encoder.finish() for record in records_of(batch)]


def values_of(source: ColumnSource) -> list[bytes | None]:
    return [record[3] for record in encoded(source)]


def first_fault(faults: list[bool]) -> str | None:
    return f"row {faults.index(True)}: its value" if True in faults else None


# ---- contents ------------------------------------------------------------------------------------


@given(st.lists(st.tuples(EDGE, EDGE), max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_span_outside_its_buffer_is_refused_with_its_row(spans: list[tuple[int, int]]) -> None:
    source = ColumnSource(len(spans))
    starts, lengths = int32(*(span[0] for span in spans)), int32(*(span[1] for span in spans))
    source.spans("value", DATA, starts, lengths)

    fault = first_fault(
        [n != -1 and (n < 0 or start < 0 or start + n > len(DATA)) for start, n in spans]
    )
    if fault is not None:
        with pytest.raises(Corrupt, match=fault):
            encoded(source)
    else:
        assert values_of(source) == [
            None if n == -1 else DATA[start : start + n] for start, n in spans
        ]


@given(st.lists(LONG_EDGE, min_size=1, max_size=4), st.booleans(), st.data())
@settings(max_examples=300, deadline=None)
def test_an_end_outside_its_buffer_is_refused_with_its_row(
    ends: list[int], is_long: bool, data: st.DataObject
) -> None:
    if not is_long:
        ends = [max(-(2**31), min(end, 2**31 - 1)) for end in ends]
    count = len(ends) - 1
    first = data.draw(st.integers(0, 20))
    valid = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    bits = sum(each << first + row for row, each in enumerate(valid))
    source = ColumnSource(count)
    source.ends(
        "value",
        DATA,
        int64(*ends) if is_long else int32(*ends),
        validity=bits.to_bytes((first + count + 7) // 8 + 1, "little"),
        validity_first=first,
    )

    rows = list(zip(ends, ends[1:], valid, strict=False))
    fault = first_fault(
        [is_valid and not 0 <= start <= end <= len(DATA) for start, end, is_valid in rows]
    )
    if fault is not None:
        with pytest.raises(Corrupt, match=fault):
            encoded(source)
    else:
        assert values_of(source) == [
            DATA[start:end] if is_valid else None for start, end, is_valid in rows
        ]


def test_a_missing_column_is_null() -> None:
    assert encoded(ColumnSource(1)) == [(0, 0, None, None, [])]


def test_a_key_outside_its_buffer_is_refused() -> None:
    source = ColumnSource(1)
    source.spans("key", DATA, int32(0), int32(17))

    with pytest.raises(Corrupt, match="row 0: its key is not within"):
        encoded(source)


def test_the_row_of_an_error_is_counted_over_all_sources() -> None:
    good, bad = ColumnSource(3), ColumnSource(2)
    bad.spans("value", DATA, int32(0, 0), int32(0, 17))
    encoder = BatchEncoder(batch_bytes_max=1000, timestamp=0)
    encoder.append_columns(good)
    encoder.append_rows([b"", b""])

    with pytest.raises(Corrupt, match="row 6"):
        encoder.append_columns(bad)


# ---- headers -------------------------------------------------------------------------------------


@given(st.lists(EDGE | st.integers(0, 3), max_size=4))
@settings(max_examples=200, deadline=None)
def test_header_ends_that_do_not_ascend_within_the_headers_are_refused_with_their_row(
    ends: list[int],
) -> None:
    source = ColumnSource(len(ends))
    source.spans("header_key", DATA, int32(0, 1, 2), int32(1, 1, 1))
    source.spans("header_value", DATA, int32(3, 4, 5), int32(1, -1, 1))
    source.header_ends(int32(*ends))

    pairs = list(zip([0, *ends], ends, strict=False))
    faults = [not 0 <= start <= end <= 3 for start, end in pairs]
    if True in faults:
        with pytest.raises(Corrupt, match=f"row {faults.index(True)}: its headers"):
            encoded(source)
    else:
        every = [(b"\0", b"\3"), (b"\1", None), (b"\2", b"\5")]
        assert [record[4] for record in encoded(source)] == [every[a:b] for a, b in pairs]


@given(st.lists(LONG_EDGE | st.integers(0, 3), min_size=1, max_size=4), st.booleans())
@settings(max_examples=200, deadline=None)
def test_header_lists_that_do_not_ascend_within_the_headers_are_refused_with_their_row(
    ends: list[int], is_long: bool
) -> None:
    if not is_long:
        ends = [max(-(2**31), min(end, 2**31 - 1)) for end in ends]
    source = ColumnSource(len(ends) - 1)
    source.ends("header_key", DATA, int32(0, 1, 2, 3))
    source.ends("header_value", DATA, int64(3, 4, 5, 6), validity=b"\x05")
    source.header_lists(int64(*ends) if is_long else int32(*ends))

    pairs = list(itertools.pairwise(ends))
    faults = [not 0 <= start <= end <= 3 for start, end in pairs]
    if True in faults:
        with pytest.raises(Corrupt, match=f"row {faults.index(True)}: its headers"):
            encoded(source)
    else:
        every = [(b"\0", b"\3"), (b"\1", None), (b"\2", b"\5")]
        assert [record[4] for record in encoded(source)] == [every[a:b] for a, b in pairs]


@pytest.mark.parametrize(
    ("keys", "values", "words"),
    [
        (int32(17), int32(1), "the key of a header is not within"),
        (int32(-1), int32(1), "a header has no key"),
        (int32(1), int32(17), "the value of a header is not within"),
    ],
    ids=["key", "null", "value"],
)
def test_a_header_outside_its_buffer_is_refused(keys: Any, values: Any, words: str) -> None:
    source = ColumnSource(1)
    source.spans("header_key", DATA, int32(0), keys)
    source.spans("header_value", DATA, int32(0), values)
    source.header_ends(int32(1))

    with pytest.raises(Corrupt, match=f"row 0: {words}"):
        encoded(source)


def test_header_lists_without_header_columns_are_refused() -> None:
    source = ColumnSource(1)
    source.header_ends(int32(1))

    with pytest.raises(Corrupt, match="row 0: its headers"):
        encoded(source)


def test_two_rows_cannot_share_the_same_headers() -> None:
    # So the work is limited by the number of headers, whatever the ends say.
    source = ColumnSource(3)
    source.spans("header_key", DATA, int32(0), int32(1))
    source.spans("header_value", DATA, int32(0), int32(1))
    source.header_lists(int32(0, 1, 0, 1))

    with pytest.raises(Corrupt, match="row 1"):
        encoded(source)


def test_headers_larger_than_any_batch_are_refused_without_overflow() -> None:
    source = ColumnSource(1)
    many = 1 << 16
    source.spans("header_key", bytes(1 << 16), int32(*[0] * many), int32(*[1 << 16] * many))
    source.header_ends(int32(many))

    with pytest.raises(LimitExceeded, match="row 0"):
        encoded(source)


# ---- columns that do not match the number of rows
# -------------------------------------------------


@pytest.mark.parametrize(
    "put",
    [
        lambda source: source.spans("value", DATA, int32(0), int32(0, 0)),
        lambda source: source.spans("value", DATA, int32(0, 0), int32(0)),
        lambda source: source.ends("value", DATA, int32(0, 0)),
        lambda source: source.ends("value", DATA, int32()),
        lambda source: source.ends("value", DATA, int32(0, 0, 0), validity=b""),
        lambda source: source.ends("value", DATA, int32(0, 0, 0), validity=b"1", validity_first=7),
        lambda source: source.ends("value", DATA, int32(0, 0, 0), validity=b"1", validity_first=-1),
        lambda source: source.ends(
            "value", DATA, int32(0, 0, 0), validity=b"1", validity_first=2**63 - 1
        ),
        lambda source: source.header_ends(int32(0)),
        lambda source: source.header_lists(int32(0, 0)),
        lambda source: source.header_lists(int32(0, 0, 0), validity=b""),
        lambda source: source.timestamps(int64(0)),
        lambda source: source.timestamps(int64(0, 0), validity=b""),
        lambda source: source.timestamps(int64(0, 0), units=0),
        lambda source: source.offsets(int64(0, 0, 0)),
        lambda source: source.spans("values", DATA, int32(0, 0), int32(0, 0)),
    ],
)
def test_columns_of_another_length_than_the_rows_are_refused(
    put: Callable[[ColumnSource], None],
) -> None:
    source = ColumnSource(2)

    with pytest.raises(ValueError, match=r"expected|validity|no column|units"):
        put(source)
    assert values_of(source) == [None, None]


@pytest.mark.parametrize("numbers", [b"", bytes(8), array.array("d", [0, 0]), int64(0, 0)])
def test_numbers_of_the_wrong_type_are_refused(numbers: Any) -> None:
    with pytest.raises(TypeError, match="expected int32"):
        ColumnSource(2).header_ends(numbers)


def test_unaligned_numbers_are_refused() -> None:
    numbers = memoryview(bytes(17))[1:].cast("q")

    with pytest.raises(ValueError, match="aligned"):
        ColumnSource(2).timestamps(numbers)


def test_a_column_can_be_set_only_once() -> None:
    source = ColumnSource(1)
    source.spans("value", DATA, int32(0), int32(1))
    source.header_ends(int32(0))

    with pytest.raises(ValueError, match="already"):
        source.ends("value", DATA, int64(0, 100))
    with pytest.raises(ValueError, match="already"):
        source.header_lists(int64(0, 100))
    assert values_of(source) == [b"\0"]


def test_header_keys_and_header_values_must_be_equally_many() -> None:
    source = ColumnSource(1)
    source.spans("header_key", DATA, int32(0), int32(1))

    with pytest.raises(ValueError, match="of headers"):
        source.spans("header_value", DATA, int32(0, 0), int32(1, 1))


def test_a_negative_number_of_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 rows"):
        ColumnSource(-1)


# ---- memory --------------------------------------------------------------------------------------


def test_a_column_holds_a_reference_to_its_memory() -> None:
    data, starts, lengths = bytearray(DATA), int32(0), int32(16)
    source = ColumnSource(1)
    source.spans("value", data, starts, lengths)

    for held in (data, starts, lengths):
        with pytest.raises(BufferError):
            held.append(0)
    del data, starts, lengths
    assert values_of(source) == [DATA]


def test_columns_changed_while_they_are_encoded_change_only_the_encoded_values() -> None:
    count = 2_000
    lengths = int32(*[1] * count)
    source = ColumnSource(count)
    source.spans("value", bytes(200), int32(*[0] * count), lengths)
    stop = threading.Event()

    def change() -> None:
        size = 0
        while not stop.is_set():
            size = (size + 37) % 240 - 20
            for row in range(0, count, 7):
                lengths[row] = size

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(60):
            encoder = BatchEncoder(batch_bytes_max=5_000, timestamp=0)
            try:
                encoder.append_columns(source)
            except Corrupt:
                continue
            batches = encoder.finish()
            assert sum(len(records_of(batch)) for batch in batches) == count
    finally:
        stop.set()
        changing.join()
