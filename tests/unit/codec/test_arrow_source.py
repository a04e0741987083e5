"""Records of Arrow tables, compared with the oracle."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec.encoding import encode
from tests.support.row_sources import (
    HEADERS,
    NOW_MS,
    Fields,
    contents_of,
    expected,
    limits,
    rows,
    table_of,
)


@given(rows, limits, st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
@settings(max_examples=150, deadline=None)
def test_arrow_data_is_encoded_to_the_same_batches(
    given_rows: list[Fields], limit: int, kind: pa.DataType
) -> None:
    assert encode(table_of(given_rows, kind), batch_bytes_max=limit) == expected(given_rows, limit)


@given(rows, st.integers(0, 9), st.integers(0, 9), limits)
@settings(max_examples=100, deadline=None)
def test_only_the_rows_of_a_slice_are_encoded(
    given_rows: list[Fields], start: int, count: int, limit: int
) -> None:
    found = encode(table_of(given_rows).slice(start, count), batch_bytes_max=limit)

    assert found == expected(given_rows[start : start + count], limit)


@given(rows, rows, limits)
@settings(max_examples=60, deadline=None)
def test_batches_continue_across_the_chunks_of_a_table(
    first: list[Fields], second: list[Fields], limit: int
) -> None:
    table = pa.Table.from_batches([table_of(first), table_of(second)])

    assert encode(table, batch_bytes_max=limit) == expected([*first, *second], limit)


def test_a_frame_of_any_arrow_compatible_library_is_a_table() -> None:
    table = pa.Table.from_batches([table_of([(b"key", b"value", [], NOW_MS)])])

    class Frame:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    class Array:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return table.to_batches()[0].__arrow_c_array__(requested_schema)

    assert encode(Frame()) == encode(table) == encode(Array())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_values_may_have_any_binary_type(kind: pa.DataType) -> None:
    array = pa.array([b"ab", None, b"cd"], pa.binary())
    if not pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.string())
    table = pa.table({"key": pa.nulls(3), "value": array.cast(kind)})

    assert [record[2:4] for record in contents_of(encode(table))] == [
        (None, b"ab"),
        (None, None),
        (None, b"cd"),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "timestamp"),
    [
        (pa.timestamp("s"), -3, -3_000),
        (pa.timestamp("ms", "UTC"), -3, -3),
        (pa.timestamp("us"), 1_999, 1),
        (pa.timestamp("us"), -1, -1),
        (pa.timestamp("us"), -1_000, -1),
        (pa.timestamp("us"), -1_001, -2),
        (pa.timestamp("ns"), 1_999_999, 1),
        (pa.int64(), 12, 12),
        (pa.int64(), None, 99),
    ],
    ids=str,
)
def test_times_of_any_unit_are_truncated_to_milliseconds(
    kind: pa.DataType, value: int | None, timestamp: int
) -> None:
    table = pa.table({"value": pa.array([b""]), "timestamp": pa.array([value], kind)})

    assert contents_of(encode(table, timestamp_ms=99))[0][1] == timestamp


def test_headers_may_be_large_lists_or_maps_or_nulls() -> None:
    pairs = [[("a", b"1"), ("b", None)], None, [], [("c", b"")]]
    large = pa.large_list(HEADERS.value_type)
    for kind in (pa.map_(pa.string(), pa.binary()), HEADERS, large):
        lists: list[Any] = pairs
        if kind in (HEADERS, large):
            lists = [each and [{"key": k, "value": v} for k, v in each] for each in pairs]
        array = pa.array([[], *lists], kind)
        table = pa.table({"value": [b""] * 5, "headers": array}).slice(1)

        assert [record[4] for record in contents_of(encode(table))] == [
            [(b"a", b"1"), (b"b", None)],
            [],
            [],
            [(b"c", b"")],
        ]
    assert encode(pa.table({"value": [b""], "headers": pa.nulls(1)}), timestamp_ms=0) == encode(
        [b""], timestamp_ms=0
    )


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("value", pa.array([1])),
        ("value", pa.array([1]).dictionary_encode()),
        ("key", pa.array([[b""]])),
        ("timestamp", pa.array([1.0])),
        ("timestamp", pa.array([1], pa.int32())),
        ("headers", pa.array([b""])),
        ("headers", pa.array([[b""]])),
        ("headers", pa.array([[{"key": "a", "content": b""}]])),
        ("headers", pa.array([[{"key": 1, "value": b""}]])),
        ("offset", pa.array([1], pa.int32())),
        ("offset", pa.array([None], pa.int64())),
    ],
    ids=str,
)
def test_an_arrow_column_of_the_wrong_type_is_named(name: str, array: pa.Array) -> None:
    columns = {"value": pa.array([b""]), name: array}

    with pytest.raises(TypeError, match=rf"{name[:6]}.*: expected"):
        encode(pa.table(columns))
