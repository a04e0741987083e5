"""A set of keys as a table of spans."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.records.rows import KeyFilter
from broker.codec import decode_columns
from tests.support.record_bytes import batch, contents_of, record


@given(st.lists(st.binary(max_size=4), max_size=40), st.lists(st.binary(max_size=4), max_size=40))
@settings(max_examples=200, deadline=None)
def test_a_key_is_found_when_it_is_one_of_the_set(wanted: list[bytes], keys: list[bytes]) -> None:
    data = batch([record(i, key) for i, key in enumerate(keys)])

    assert contents_of(decode_columns(data, key_filter=wanted), "key") == [
        key for key in keys if key in set(wanted)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 63, 64, 65, 1000])
def test_lookups_end_for_any_number_of_keys(count: int) -> None:
    wanted = [b"%d" % i for i in range(count)]
    data = batch([record(0, b"absent"), record(1, wanted[-1]), record(2, wanted[0])])

    assert contents_of(decode_columns(data, key_filter=wanted), "key") == [wanted[-1], wanted[0]]


def test_keys_with_zero_bytes_differ() -> None:
    keys = [b"", b"\0", b"\0\0", b"a\0b", b"a\0c"]
    data = batch([record(i, key) for i, key in enumerate(keys)])

    for key in keys:
        assert contents_of(decode_columns(data, key_filter=[key]), "key") == [key]


@pytest.mark.parametrize("keys", ["text", [b"key", "text"], [5], [None], 5, None])
def test_a_key_that_is_not_bytes_is_a_type_error(keys: object) -> None:
    with pytest.raises(TypeError):
        KeyFilter(keys)  # type: ignore[arg-type]


def test_a_key_beyond_2_gib_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="a key of 2147483648 bytes"):
        KeyFilter(bytes(2**31))
