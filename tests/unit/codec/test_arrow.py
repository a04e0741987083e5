"""Columns as Arrow: the schema of Spark's Kafka source, and every value in its place."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import Columns, Corrupt, decode_columns
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Record
from tests.oracles.records_oracle import Row, wrap
from tests.support.record_bytes import (
    CODECS,
    COLUMNS,
    GZIP,
    TIMESTAMP,
    batch,
    contents,
    record,
    rows,
    some,
)

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS),
    ]
)
DATA = (
    batch(
        [
            Record(0, 0, b"key", b"value", [(b"name", b"content"), ("é".encode(), None)]),
            Record(1, 1, None, None, []),
            Record(2, 2, b"", b"", [(b"", b"")]),
        ]
    )
    + Message(3, None, b"v" * 1000, magic=0).encode()
)


def arrow(data: bytes, **options: Any) -> pa.RecordBatch:
    """Return all columns of all records."""
    found = decode_columns(data, columns=COLUMNS, **options).to_arrow("topic", 7)
    found.validate(full=True)
    return found


def as_lists(expected: list[Row]) -> dict[str, list[Any]]:
    """Return Arrow's columns for such rows."""
    return {
        "key": [row.key for row in expected],
        "value": [row.value for row in expected],
        "offset": [row.offset for row in expected],
        "timestamp": [
            None if row.timestamp == -1 else wrap(1000 * row.timestamp) for row in expected
        ],
        "timestampType": [row.timestamp_type for row in expected],
        "headers": [
            [{"key": name.decode(), "value": value} for name, value in row.headers]
            for row in expected
        ],
    }


def lists_of(found: pa.RecordBatch) -> dict[str, list[Any]]:
    """Return the columns as lists, times in microseconds."""
    return {
        name: (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
        for name, column in zip(found.schema.names, found.columns, strict=True)
        if name not in {"topic", "partition"}
    }


# ---- schema --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [DATA, b"", some(3, codec=GZIP)], ids=["some", "none", "gzip"])
def test_the_schema_is_that_of_sparks_kafka_source(data: bytes) -> None:
    assert arrow(data).schema.equals(SCHEMA, check_metadata=True)


@pytest.mark.parametrize("names", [["key"], ["offset", "value"], ["timestamp_type"], ["headers"]])
def test_only_decoded_columns_are_present(names: list[str]) -> None:
    found = decode_columns(DATA, columns=names).to_arrow()
    arrows = [{"timestamp_type": "timestampType"}.get(name, name) for name in names]

    assert sorted(found.schema.names) == sorted(arrows)
    assert found.num_rows == 4
    for name in arrows:
        assert found.column(name).equals(arrow(DATA).column(name))


def test_topic_and_partition_are_present_when_given() -> None:
    columns = decode_columns(DATA, columns=["offset"])

    assert columns.to_arrow().schema.names == ["offset"]
    assert columns.to_arrow("clicks").to_pydict()["topic"] == ["clicks"] * 4
    assert columns.to_arrow(partition=0).to_pydict()["partition"] == [0] * 4
    assert columns.to_arrow("é", 2**31 - 1).schema.names == ["topic", "partition", "offset"]


# ---- values --------------------------------------------------------------------------------------

texts = st.text(max_size=8).map(str.encode)
parts = st.lists(
    st.builds(
        Record,
        st.integers(-(2**62), 2**62),
        st.integers(0, 100),
        contents | st.binary(min_size=500, max_size=530),
        contents | st.binary(min_size=15, max_size=17),
        st.lists(st.tuples(texts, contents), max_size=3),
    ),
    max_size=20,
)


@given(parts, st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_the_values_equal_those_of_the_columns(parts: list[Record], codec: int) -> None:
    data = batch(parts, codec=codec)

    assert lists_of(arrow(data)) == as_lists(rows(decode_columns(data, columns=COLUMNS)))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 511, 512, 513, 514, 600])
@pytest.mark.parametrize("behind", [0, 1, 15, 16, 17, 40])
def test_a_value_is_copied_whole_wherever_the_data_ends(size: int, behind: int) -> None:
    value = bytes(i % 251 for i in range(size))
    parts = [record(i, None, value) for i in range(3)] + [record(3, None, b"x" * behind)]

    assert arrow(batch(parts)).column("value").to_pylist() == [value] * 3 + [b"x" * behind]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_a_null_is_a_bit_of_the_validity_bitmap(count: int) -> None:
    values = [None if i % 3 == 0 else b"%d" % i for i in range(count)]

    found = arrow(batch([record(i, None, value) for i, value in enumerate(values)]))

    assert found.column("value").to_pylist() == values
    assert found.column("value").null_count == values.count(None)
    assert found.column("key").null_count == count


def test_a_column_without_nulls_has_no_validity_bitmap() -> None:
    found = arrow(some(20))

    assert found.column("key").buffers()[0] is None
    assert found.column("value").null_count == 0


def test_slices_equal_those_of_the_lists() -> None:
    found, expected = arrow(DATA), lists_of(arrow(DATA))

    for start in range(5):
        for length in range(5 - start):
            assert lists_of(found.slice(start, length)) == {
                name: values[start : start + length] for name, values in expected.items()
            }


def test_a_timestamp_is_an_instant_in_utc() -> None:
    (found,) = arrow(some(1)).column("timestamp").to_pylist()

    assert found.isoformat() == "2023-11-14T22:13:20+00:00"
    assert found.timestamp() == TIMESTAMP / 1000


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 65])
def test_a_record_without_a_timestamp_is_null(count: int) -> None:
    times = [(-1, -2, 0)[i % 3] for i in range(count)]  # only the first of them means no time
    records = [Record(each, i, None, None, []) for i, each in enumerate(times)]

    found = arrow(batch(records, base_timestamp=0))

    column = found.column("timestamp")
    assert column.null_count == times.count(-1)
    assert column.cast(pa.int64()).to_pylist() == [
        None if each == -1 else 1000 * each for each in times
    ]


def test_a_record_without_headers_has_an_empty_list() -> None:
    assert arrow(DATA).column("headers").to_pylist() == [
        [{"key": "name", "value": b"content"}, {"key": "é", "value": None}],
        [],
        [{"key": "", "value": b""}],
        [],
    ]


@pytest.mark.parametrize("name", [b"\xff", b"\xc3", b"ab\xed\xa0\x80", b"\xf5\x80\x80\x80"])
@pytest.mark.parametrize("codec", [0, *CODECS])
def test_a_header_name_that_is_not_utf_8_is_corrupt(name: bytes, codec: int) -> None:
    columns = decode_columns(
        batch([Record(0, 0, None, None, [(b"good", None), (name, None)])], codec=codec),
        columns=COLUMNS,
    )

    with pytest.raises(Corrupt, match="not UTF-8"):
        columns.to_arrow()


def test_names_that_are_utf_8_only_when_joined_are_corrupt() -> None:
    columns = decode_columns(
        batch([Record(0, 0, None, None, [(b"\xc3", None), (b"\xa9", None)])]), columns=COLUMNS
    )

    with pytest.raises(Corrupt, match="not UTF-8"):
        columns.to_arrow()


def test_no_records_make_no_rows() -> None:
    for data in (b"", batch([]), DATA[:50]):
        found = arrow(data)
        assert found.num_rows == 0
        assert all(values == [] for values in lists_of(found).values())


# ---- memory --------------------------------------------------------------------------------------


def test_numbers_are_not_copied() -> None:
    columns = decode_columns(some(20), columns=COLUMNS)

    found = columns.to_arrow()

    start = np.asarray(columns.column("offset")).__array_interface__["data"][0]
    assert found.column("offset").buffers()[1].address == start


@given(st.lists(st.tuples(parts, st.integers(0, 4), st.booleans()), max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_held_result_never_changes_when_memory_is_reused(
    steps: list[tuple[list[Record], int, bool]],
) -> None:
    held = []
    before: Columns | None = None
    for given_parts, codec, is_held in steps:
        data = batch(given_parts, codec=codec)
        before = decode_columns(data, columns=COLUMNS, reuse=before)
        found = before.to_arrow("topic", 7)
        assert found.equals(arrow(data))
        if is_held:
            held.append((found, lists_of(found)))
    for found, lists in held:
        assert lists_of(found) == lists


def test_unreferenced_memory_is_reused() -> None:
    def place(columns: Columns) -> list[int]:
        found = columns.to_arrow()
        return [buffer.address for name in ("key", "value") for buffer in found[name].buffers()[1:]]

    before = decode_columns(some(500))
    first = place(before)

    assert place(before) == first
    assert place(decode_columns(some(400), reuse=before)) == first


def test_one_result_can_be_converted_to_arrow_more_than_once() -> None:
    columns = decode_columns(DATA, columns=COLUMNS)

    first, second = columns.to_arrow("topic", 7), columns.to_arrow("topic", 7)

    assert first.equals(second)
    assert lists_of(first) == lists_of(arrow(DATA))


def test_an_input_that_shrinks_is_a_value_error() -> None:
    data = bytearray(some(3))
    columns = decode_columns(data)
    data.clear()

    with pytest.raises(ValueError, match="a span lies outside of 0 bytes"):
        columns.to_arrow()


def test_the_input_may_be_freed_before_the_rows() -> None:
    data = bytearray(DATA)
    columns = decode_columns(data, columns=COLUMNS)
    found = columns.to_arrow("topic", 7)
    data[:] = bytes(len(data))
    del columns

    assert lists_of(found) == lists_of(arrow(DATA))


# ---- imports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["numpy", "pyarrow"])
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    program = (
        "import sys; from broker import codec; codec.decode_columns(b''); list(codec.records(b''));"
        f"codec.scan_headers(b''); codec.audit(b''); print({module!r} in sys.modules)"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert found.stdout.split() == [b"False"]
