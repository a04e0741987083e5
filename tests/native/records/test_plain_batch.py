"""Batches of records that arrive without one (records/plain_batch): equal to the codec's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.records.plain_batch import plain_batch
from broker._native.records.record_batch import validate
from broker.codec import encode, records

FIELDS = st.none() | st.binary(max_size=300)
ROWS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=200)
TIMES = st.integers(0, 1 << 62)


@given(ROWS, TIMES)
def test_the_batch_equals_the_codecs(
    rows: list[tuple[bytes | None, bytes | None]], time: int
) -> None:
    assert [plain_batch(rows, timestamp_ms=time)] == encode(rows, timestamp_ms=time)


@given(ROWS, TIMES)
def test_the_codec_reads_every_record_of_it(
    rows: list[tuple[bytes | None, bytes | None]], time: int
) -> None:
    found = list(records(plain_batch(rows, timestamp_ms=time)))

    assert [(each.key, each.value) for each in found] == rows
    assert [each.offset for each in found] == list(range(len(rows)))
    assert {each.timestamp for each in found} == {time}


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 1 << 20, 5 << 20])
def test_values_of_any_length_fit(size: int) -> None:
    batch = plain_batch([(None, bytes(size)), (b"k", None)], timestamp_ms=1)

    assert validate(batch) is None
    assert [each.value for each in records(batch)] == [bytes(size), None]


def test_many_records_are_one_batch() -> None:
    batch = plain_batch([(None, b"v")] * 20_000, timestamp_ms=1)

    assert validate(batch) is None
    assert [batch] == encode([b"v"] * 20_000, timestamp_ms=1)


def test_no_records_make_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one"):
        plain_batch([], timestamp_ms=1)
