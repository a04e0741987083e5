"""An array of numbers that Python reads through the buffer protocol."""

import io

import numpy as np
import pytest

from broker._native.records.column import Column, gather, microseconds
from broker.codec import decode_columns, scan_headers
from tests.support.record_bytes import COLUMNS, record, some
from tests.support.record_bytes import batch as batch_of


def column(name: str, data: bytes = some(5)) -> Column:
    """Return a column of some records."""
    return decode_columns(data, columns=COLUMNS).column(name)


def test_a_column_is_as_long_as_its_values() -> None:
    found = column("offset")

    assert (len(found), found.count, found.item_size) == (5, 5, 8)
    assert list(memoryview(found)) == [0, 1, 2, 3, 4]


def test_a_column_is_read_only() -> None:
    found = column("offset")

    with pytest.raises(TypeError, match="read-only"):
        memoryview(found)[0] = 1
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"other").readinto(found)
    assert list(memoryview(found)) == [0, 1, 2, 3, 4]


def test_an_empty_column_has_a_view() -> None:
    for found in (Column(), column("offset", b"")):
        assert list(memoryview(found)) == []
        assert bytes(found) == b""
        assert np.asarray(found).size == 0


def test_a_view_outlives_its_column() -> None:
    view = memoryview(column("offset"))

    assert list(view) == [0, 1, 2, 3, 4]


def test_memory_begins_on_a_cache_line() -> None:
    found = decode_columns(some(5, codec=1), columns=COLUMNS)

    for each in found.arrays.values():
        assert np.asarray(each).__array_interface__["data"][0] % 64 == 0


def test_columns_compare_by_identity_and_take_no_attributes() -> None:
    one, other = column("offset"), column("offset")

    assert one != other
    with pytest.raises(AttributeError):
        one.name = "offset"  # type: ignore[attr-defined]


def test_spans_outside_of_the_data_are_refused() -> None:
    found = decode_columns(some(5))
    start, length = found.column("value_start"), found.column("value_length")

    for size in (0, 60, len(some(5)) - 10):
        with pytest.raises(ValueError, match="a span lies outside"):
            gather(bytes(size), start, length)


def test_spans_are_two_columns_of_int32_of_the_same_length() -> None:
    found = decode_columns(some(5))
    other = decode_columns(batch_of([record(0)]))
    start, length = found.column("value_start"), found.column("value_length")

    for one, two in [
        (found.column("offset"), length),
        (start, found.column("offset")),
        (start, other.column("value_length")),
        (Column(), Column()),
    ]:
        with pytest.raises(ValueError, match="two int32 columns"):
            gather(found.data, one, two)


def test_only_timestamps_become_microseconds() -> None:
    with pytest.raises(ValueError, match="int64"):
        microseconds(column("key_start"))
    with pytest.raises(ValueError, match="int64"):
        microseconds(scan_headers(some(5))._rows)
