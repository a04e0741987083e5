"""Records without a key: found, and only in valid records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.records.record_checks import keyless
from broker.codec import encode
from broker.model.errors import Corrupt

HEADER = 61
KEYS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
RECORDS = st.lists(st.tuples(KEYS, KEYS, HEADERS), min_size=1, max_size=20)


def body(
    records: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]],
) -> bytes:
    [batch] = encode(records, timestamp_ms=5)
    return batch[HEADER:]


@given(RECORDS)
def test_the_indices_of_records_without_a_key_are_found(
    records: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]],
) -> None:
    expected = [place for place, (key, *_) in enumerate(records) if key is None]

    assert keyless(body(records), len(records), len(records)) == expected


def test_no_more_indices_are_returned_than_asked_for() -> None:
    data = body([(None, b"value", [])] * 9)

    assert keyless(data, 9, 3) == [0, 1, 2]


@given(RECORDS, st.data())
def test_records_that_are_cut_short_are_corrupt(
    records: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]],
    data: st.DataObject,
) -> None:
    whole = body(records)
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(Corrupt):
        keyless(whole[:size], len(records), 1)


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_a_record_count_that_differs_from_the_header_is_corrupt(count: int) -> None:
    with pytest.raises(Corrupt):
        keyless(body([(b"k", b"v", [])] * 2), count, 1)


def test_offsets_that_do_not_count_from_0_are_corrupt() -> None:
    data = body([(b"k", b"v", [])])

    with pytest.raises(Corrupt):
        keyless(data + data, 2, 1)  # both sizes say 0


@pytest.mark.parametrize("places_max", [0, -1])
def test_a_limit_of_no_indices_is_refused(places_max: int) -> None:
    with pytest.raises(ValueError, match="places_max"):
        keyless(b"", 0, places_max)
