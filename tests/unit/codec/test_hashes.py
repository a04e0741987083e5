"""Checksums and hashes of a column of any type."""

import doctest
import random
import subprocess
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from broker._native.records.column import Column
from broker.codec import decode_columns, hashes
from broker.codec.hashes import (
    Spans,
    murmur2,
    murmur2_column,
    partition,
    partition_column,
    xxh3_64_column,
)
from tests.support.batches import batch_of

PARTITIONS = 12
ROWS: list[bytes | None] = [b"one", None, b"", b"three", b"\xc3\xa9" * 200, None, b"seven"]
ARROW_TYPES = [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()]

contents = st.none() | st.binary(max_size=40) | st.binary(min_size=230, max_size=300)


def ints(column: Column) -> list[int]:
    """Return the items of a column."""
    return memoryview(column).tolist()


def spans_of(rows: Iterable[bytes | None], gap: bytes = b"") -> Spans:
    """Return values in one buffer; the start of a null is arbitrary, as is allowed."""
    data, start, length = bytearray(), array("i"), array("i")
    for row in rows:
        data += gap
        start.append(len(data) if row is not None else 1 << 30)
        length.append(len(row) if row is not None else -1)
        data += row or b""
    return Spans(bytes(data), start, length)


def xxh3_of(rows: Iterable[bytes | None]) -> list[int]:
    """Return the result of the package of that name."""
    return [0 if row is None else xxhash.xxh3_64_intdigest(row) for row in rows]


# ---- what goes in ------------------------------------------------------------------------------


@given(st.lists(contents), st.binary(max_size=3))
def test_spans_hash_like_the_values_they_point_to(rows: list[bytes | None], gap: bytes) -> None:
    assert ints(xxh3_64_column(spans_of(rows, gap))) == xxh3_of(rows)
    assert ints(murmur2_column(spans_of(rows, gap))) == ints(murmur2_column(rows))


@given(st.lists(contents), st.data())
def test_an_arrow_array_and_its_slices_hash_like_their_values(
    rows: list[bytes | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows)))
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))

    column = xxh3_64_column(pa.array(rows, kind).slice(start, count))

    assert ints(column) == xxh3_of(rows[start : start + count])


@pytest.mark.parametrize("kind", [*ARROW_TYPES, pa.binary_view(), pa.string_view()], ids=str)
def test_every_arrow_type_of_bytes_is_accepted(kind: Any) -> None:
    assert ints(xxh3_64_column(pa.array(ROWS, pa.binary()).cast(kind))) == xxh3_of(ROWS)
    assert ints(xxh3_64_column(pa.array(ROWS).dictionary_encode())) == xxh3_of(ROWS)


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_a_series_of_any_arrow_compatible_library_is_a_column(method: str) -> None:
    spoken = pa.array(ROWS) if method == "__arrow_c_array__" else pa.chunked_array([ROWS])
    series: Any = type("Series", (), {method: staticmethod(getattr(spoken, method))})()

    assert ints(xxh3_64_column(series)) == xxh3_of(ROWS)


def test_a_chunked_array_is_one_column() -> None:
    chunks = [pa.array(part, pa.binary()) for part in (ROWS[:2], [], ROWS[2:5], ROWS[5:])]

    column = partition_column(pa.chunked_array([*chunks[:3], chunks[3].slice(0, 2)]), PARTITIONS)

    assert ints(column) == [partition(row, PARTITIONS) for row in ROWS]


@pytest.mark.parametrize(
    "empty",
    [
        [],
        spans_of([]),
        pa.array([], pa.binary()),
        pa.chunked_array([], pa.binary()),
    ],
    ids=["objects", "spans", "array", "no chunks"],
)
def test_no_rows_give_no_hashes(empty: Any) -> None:
    assert ints(murmur2_column(empty)) == []


def test_an_array_of_nulls_needs_no_data() -> None:
    assert ints(xxh3_64_column(pa.nulls(3, pa.binary()))) == [0, 0, 0]


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda rows: (row for row in rows)])
def test_any_iterable_of_bytes_is_accepted(kind: Any) -> None:
    assert ints(xxh3_64_column(kind(ROWS))) == xxh3_of(ROWS)


def test_objects_may_be_any_contiguous_buffer() -> None:
    assert ints(xxh3_64_column([bytearray(b"a"), memoryview(b"xbx")[1:2]])) == xxh3_of([b"a", b"b"])


def test_decoded_columns_hash_like_their_values() -> None:
    batch = batch_of([(key, b"value", []) for key in ROWS], 0)

    columns = decode_columns(batch)

    assert ints(partition_column(Spans.of(columns, "key"), PARTITIONS)) == [
        partition(key, PARTITIONS) for key in ROWS
    ]
    assert ints(xxh3_64_column(Spans.of(columns, "value"))) == xxh3_of([b"value"] * len(ROWS))
    with pytest.raises(KeyError):
        Spans.of(columns, "header_key")


def test_numpy_arrays_are_spans_too() -> None:
    spans = spans_of(ROWS)
    start: Any = np.asarray(spans.start)
    length: Any = np.asarray(spans.length)
    arrays = Spans(spans.data, start, length)

    assert ints(xxh3_64_column(arrays)) == xxh3_of(ROWS)


# ---- what comes out ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (murmur2_column(ROWS), np.int32),
        (partition_column(ROWS, PARTITIONS), np.int32),
        (xxh3_64_column(ROWS), np.uint64),
    ],
)
def test_numpy_reads_a_column_without_a_copy(column: Column, dtype: type) -> None:
    first, second = np.asarray(column), np.asarray(column)

    assert first.dtype == dtype
    assert first.shape == (len(ROWS),)
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


def test_a_null_has_no_hash() -> None:
    assert ints(murmur2_column([None])) == [-1]
    assert ints(partition_column([None], PARTITIONS)) == [-1]
    assert ints(xxh3_64_column([None])) == [0]


@given(st.lists(st.binary(max_size=30)), st.integers(1, 2**31 - 1))
def test_a_partition_is_the_murmur2_modulo_the_partitions(
    keys: list[bytes], partitions: int
) -> None:
    expected = [murmur2(key) % partitions for key in keys]

    assert ints(partition_column(keys, partitions)) == expected
    assert [partition(key, partitions) for key in keys] == expected


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [0, -1, 2**31])
def test_the_number_of_partitions_must_be_positive(partitions: int) -> None:
    with pytest.raises(ValueError, match=f"{partitions} partitions, expected 1 to 2147483647"):
        partition_column([b"a"], partitions)
    with pytest.raises(ValueError, match=f"{partitions} partitions, expected 1 to 2147483647"):
        partition(b"a", partitions)


OUTSIDE = [
    (0, 7),
    (6, 1),
    (7, 0),
    (-1, 1),
    (-1, 0),
    (0, -2),
    (3, -(2**31)),
    (2**31 - 1, 2**31 - 1),
    (-(2**31), 2**31 - 1),
]


@pytest.mark.parametrize(("start", "length"), OUTSIDE)
def test_a_span_outside_its_data_is_refused(start: int, length: int) -> None:
    spans = Spans(b"sixsix", array("i", [0, start]), array("i", [6, length]))

    with pytest.raises(ValueError, match="row 1 is not within the 6 bytes of its column's data"):
        xxh3_64_column(spans)


@given(
    st.lists(st.tuples(st.integers(-3, 30), st.integers(-3, 30)), max_size=5),
    st.binary(max_size=30),
)
def test_spans_are_hashed_or_refused(spans: list[tuple[int, int]], data: bytes) -> None:
    starts, lengths = array("i", [row[0] for row in spans]), array("i", [row[1] for row in spans])
    sound = all(
        length == -1 or (length >= 0 and start >= 0 and start + length <= len(data))
        for start, length in spans
    )
    try:
        column = xxh3_64_column(Spans(data, starts, lengths))
    except ValueError:
        assert not sound
    else:
        assert sound
        assert ints(column) == xxh3_of(
            None if length == -1 else data[start : start + length] for start, length in spans
        )


def hostile_array(kind: Any, ends: Sequence[int], data: bytes) -> Any:
    """Return an array that changes after pyarrow has checked it."""
    memory = array("q" if "large" in str(kind) else "i", [0] * len(ends))
    buffers = [None, pa.py_buffer(memory), pa.py_buffer(data)]
    hostile = pa.Array.from_buffers(kind, len(ends) - 1, buffers)
    memory[:] = array(memory.typecode, ends)
    return hostile


@pytest.mark.parametrize("kind", ARROW_TYPES, ids=str)
@pytest.mark.parametrize("ends", [[0, 7], [-1, 3], [3, 2], [7, 7], [0, -1], [2**31 - 1, -(2**31)]])
def test_arrow_offsets_outside_their_data_are_refused(kind: Any, ends: Sequence[int]) -> None:
    with pytest.raises(ValueError, match=r"row [01] is not within the 6 bytes"):
        xxh3_64_column(hostile_array(kind, [0, *ends], b"sixsix"))


@pytest.mark.parametrize("extreme", [2**63 - 1, -(2**63)])
def test_the_largest_offsets_do_not_overflow(extreme: int) -> None:
    for ends in ([0, extreme], [extreme, 0], [extreme, extreme], [extreme, -extreme - 1]):
        with pytest.raises(ValueError, match="row 0 is not within"):
            xxh3_64_column(hostile_array(pa.large_binary(), ends, b"six"))


class Unvalidated:
    """Return an Arrow array as one from a file may be, which pyarrow itself would not make."""

    type = pa.binary()
    offset = 0

    def __init__(self, count: int, *memory: bytes | None) -> None:
        self.count = count
        self.memory = memory

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        raise NotImplementedError

    def __len__(self) -> int:
        return self.count

    def buffers(self) -> list[Any]:
        return [None if part is None else pa.py_buffer(part) for part in self.memory]


ONE_ROW = array("i", [0, 1]).tobytes()
NINE_ROWS = bytes(40)


@pytest.mark.parametrize(
    "unvalidated",
    [
        Unvalidated(2, None, ONE_ROW, b"a"),
        Unvalidated(1, None, ONE_ROW[:7], b"a"),
        Unvalidated(2**40, None, ONE_ROW, b"a"),
        Unvalidated(2**40, None, b"", b"a"),
        Unvalidated(2**40, None, None, b"a"),
        Unvalidated(9, b"\xff", NINE_ROWS, b""),
        Unvalidated(2**62, None, ONE_ROW, b"a"),
    ],
    ids=["ends", "half an end", "many ends", "no ends", "null ends", "validity", "most ends"],
)
def test_an_arrow_array_longer_than_its_memory_is_refused(
    unvalidated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pa, "array", lambda column: column)

    with pytest.raises(ValueError, match="key: "):
        xxh3_64_column(unvalidated)


def test_the_refused_row_is_counted_from_the_first_chunk() -> None:
    ends = array("i", [0, 3])
    chunk = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(b"six")])
    chunks = pa.chunked_array([pa.array([b"a", b"b"], pa.binary()), chunk])
    ends[1] = 9

    with pytest.raises(ValueError, match="row 2 is not within the 3 bytes"):
        xxh3_64_column(chunks)


IN_PIECES: Any = np.zeros(4, np.int32)[::2]
NOT_ALIGNED = memoryview(bytearray(9))[1:].cast("i")


@pytest.mark.parametrize(
    "wrong",
    [
        Spans(b"", array("i", [0]), array("i", [])),
        Spans(b"", array("i", []), array("i", [0])),
        Spans(b"", IN_PIECES, array("i", [0, 0])),
        Spans(b"", NOT_ALIGNED, array("i", [0, 0])),
    ],
    ids=["more starts", "more lengths", "in pieces", "not aligned"],
)
def test_spans_are_two_arrays_of_the_same_length(wrong: Spans) -> None:
    with pytest.raises(ValueError, match=r"key: expected|not contiguous|aligned"):
        murmur2_column(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        Spans(b"", array("q", [0]), array("i", [0])),
        Spans(b"", array("i", [0]), array("f", [0])),
        Spans(b"", array("I", [0]), array("i", [0])),
        Spans("text", array("i", [0]), array("i", [0])),  # type: ignore[arg-type]
        pa.array([1, 2]),
        pa.chunked_array([[1.5]]),
        pa.table({"key": [b"ab"]}),
        b"abc",
        [b"abc", "def"],
        [1],
        5,
        None,
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_an_object_that_is_not_a_column_of_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        murmur2_column(wrong)


def test_the_refused_object_is_named() -> None:
    with pytest.raises(TypeError, match="row 1: expected bytes or None, got str"):
        partition_column([b"abc", "def"], PARTITIONS)  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", ["text", 5])
def test_a_single_key_is_bytes(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected bytes, got"):
        partition(wrong, PARTITIONS)
    with pytest.raises(TypeError, match="expected bytes, got"):
        murmur2(wrong)


# ---- the module --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hashes.__all__)
def test_the_docstring_examples_run(name: str) -> None:
    public = getattr(hashes, name)
    examples = doctest.DocTestParser().get_doctest(
        public.__doc__, {each: getattr(hashes, each) for each in hashes.__all__}, name, None, None
    )

    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_importing_the_module_needs_no_optional_package() -> None:
    program = "import sys, broker.codec.hashes\nprint(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert not {"numpy", "pyarrow", "xxhash", "cramjam", "isal"} & set(ended.stdout.split())


def test_a_large_column_is_hashed_to_the_end() -> None:
    noise = random.Random(7)
    rows = [noise.randbytes(noise.randrange(60)) for _ in range(50_000)]

    assert ints(xxh3_64_column(spans_of(rows))) == xxh3_of(rows)
