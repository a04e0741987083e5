"""Memory of an older result is reused, but never while it is still referenced."""

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import Columns, Corrupt, decode_columns
from broker.codec.control_records import Marker, encode_marker
from tests.oracles.record_batch_oracle import Record
from tests.support.record_bytes import COLUMNS, GZIP, batch, numbers, rows, some

LARGE, SMALL = some(500), some(20, 1000)


def with_headers(count: int, each: int) -> bytes:
    """Return a batch of records with that many headers each."""
    return batch([Record(i, i, b"k", None, [(b"h", b"%d" % i)] * each) for i in range(count)])


def address(columns: Columns, name: str) -> int:
    """Return the address of the memory of an array."""
    start: int = np.asarray(columns.column(name)).__array_interface__["data"][0]
    return start


datas = st.one_of(
    st.builds(some, st.integers(0, 600), st.just(5), codec=st.integers(0, 4)),
    st.builds(with_headers, st.integers(0, 20), st.integers(0, 200)),
)
steps = st.tuples(
    st.lists(datas, max_size=3).map(b"".join),
    st.sets(st.sampled_from(COLUMNS), min_size=1),
    st.sets(st.integers(0, 11)),  # which arrays stay referenced
)


@given(st.lists(steps, max_size=6))
@settings(max_examples=300, deadline=None)
def test_a_reusing_call_returns_the_same_and_held_results_never_change(
    steps: list[tuple[bytes, set[str], set[int]]],
) -> None:
    held: list[tuple[Any, bytes]] = []
    before: Columns | None = None
    for data, names, places in steps:
        columns = decode_columns(data, columns=names, reuse=before)
        fresh = decode_columns(data, columns=names)

        assert columns.names == fresh.names
        for place, name in enumerate(columns.names):
            view = memoryview(columns.column(name))
            assert bytes(view) == bytes(memoryview(fresh.column(name)))
            if place in places:
                held.append((view, bytes(view)))
        assert bytes(columns.data) == bytes(fresh.data)
        if 11 in places:
            held.append((memoryview(columns.data), bytes(columns.data)))
        before = columns
    for view, content in held:
        assert bytes(view) == content


@pytest.mark.parametrize("names", [COLUMNS, ["offset"]])
def test_unreferenced_memory_is_reused(names: list[str]) -> None:
    before = decode_columns(LARGE, columns=names)
    places = [address(before, name) for name in before.names]

    columns = decode_columns(SMALL, columns=names, reuse=before)

    assert [address(columns, name) for name in columns.names] == places


def test_memory_of_decompressed_batches_is_reused() -> None:
    data = some(500, codec=GZIP)
    before = decode_columns(data)
    place = np.asarray(before.data).__array_interface__["data"][0]

    columns = decode_columns(data, reuse=before)

    assert np.asarray(columns.data).__array_interface__["data"][0] == place


def test_memory_that_is_too_small_is_not_reused() -> None:
    before = decode_columns(SMALL)

    columns = decode_columns(LARGE, reuse=before)

    assert numbers(columns, "offset") == list(range(500))


@pytest.mark.parametrize("look", [memoryview, np.asarray], ids=["memoryview", "numpy"])
def test_referenced_memory_is_not_reused(look: Any) -> None:
    before = decode_columns(LARGE)
    view = look(before.column("offset"))

    columns = decode_columns(SMALL, reuse=before)

    assert list(view) == list(range(500))
    assert numbers(columns, "offset") == list(range(1000, 1020))
    assert (
        columns.to_numpy()["value_start"][0] == decode_columns(SMALL).to_numpy()["value_start"][0]
    )


def test_memory_is_reused_once_the_last_view_is_gone() -> None:
    before = decode_columns(LARGE)
    view: Any = np.asarray(before.column("offset"))[5:]
    place = address(before, "offset")
    del view
    gc.collect()

    assert address(decode_columns(SMALL, reuse=before), "offset") == place


@pytest.mark.parametrize("name", ["key_start", "key_length", "value_start", "value_length"])
@pytest.mark.parametrize("part", [0, 1])
def test_headers_are_complete_when_only_some_of_their_arrays_were_reused(
    name: str, part: int
) -> None:
    before = decode_columns(with_headers(1, 4000), columns=["headers"])
    view = np.asarray(before.column(f"header_{name}"))
    data = with_headers(2, 700 + part)

    columns = decode_columns(data, columns=COLUMNS, reuse=before)

    assert rows(columns) == rows(decode_columns(data, columns=COLUMNS))
    assert len(view) == 4000


def test_an_older_result_is_empty_once_its_memory_was_reused() -> None:
    before = decode_columns(LARGE)

    decode_columns(SMALL, reuse=before)

    assert all(len(before.column(name)) == 0 for name in before.names)
    assert memoryview(before.column("offset")).tolist() == []


def test_an_older_result_has_no_rows_as_arrow_once_its_memory_was_reused() -> None:
    old = decode_columns(LARGE, columns=COLUMNS)

    decode_columns(SMALL, columns=COLUMNS, reuse=old)

    assert old.to_arrow().num_rows == 0


def test_after_an_error_that_reused_its_memory_an_older_result_has_no_arrow_rows() -> None:
    marker = encode_marker(Marker(7, 0, is_committed=True, coordinator_epoch=0))
    old = decode_columns(SMALL, columns=COLUMNS)
    with pytest.raises(Corrupt):
        decode_columns(LARGE[:-1] + bytes([LARGE[-1] ^ 1]), columns=COLUMNS, reuse=old)

    found = decode_columns(marker, columns=COLUMNS, reuse=old)

    assert found.to_arrow().num_rows == 0


def test_an_older_result_may_be_passed_twice() -> None:
    before = decode_columns(LARGE)

    first, second = decode_columns(SMALL, reuse=before), decode_columns(LARGE, reuse=before)

    assert numbers(first, "offset") == list(range(1000, 1020))
    assert numbers(second, "offset") == list(range(500))


def test_an_older_result_may_be_passed_after_an_error() -> None:
    before = decode_columns(LARGE)
    with pytest.raises(Corrupt):
        decode_columns(SMALL + some(1, crc=7), reuse=before)

    assert numbers(decode_columns(LARGE, reuse=before), "offset") == list(range(500))


def test_a_result_with_other_columns_may_be_passed() -> None:
    before = decode_columns(LARGE, columns=["offset", "headers"])

    columns = decode_columns(SMALL, columns=["value"], reuse=before)

    assert columns.names == ["value_start", "value_length"]
    assert rows(decode_columns(LARGE, columns=COLUMNS, reuse=columns)) == rows(
        decode_columns(LARGE, columns=COLUMNS)
    )
