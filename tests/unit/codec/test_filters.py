"""Which records decode_columns keeps: by offset, timestamp, key, and transaction."""

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.codec import Corrupt, decode_columns
from tests.oracles import message_set_oracle as message_set
from tests.oracles.message_set_oracle import Message
from tests.oracles.record_batch_oracle import Record
from tests.oracles.records_oracle import Row
from tests.support.record_bytes import (
    CODECS,
    COLUMNS,
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    TIMESTAMP,
    TRANSACTIONAL,
    batch,
    contents_of,
    marker,
    numbers,
    record,
    rows,
    some,
    wrapper,
)


def decode(data: bytes, **options: Any) -> list[Row]:
    """Return the rows of all columns."""
    return rows(decode_columns(data, columns=COLUMNS, **options))


def offsets(data: bytes, **options: Any) -> list[int]:
    """Return the kept offsets."""
    return numbers(decode_columns(data, **options), "offset")


# ---- offsets and timestamps ----------------------------------------------------------------------

# Offsets 0 to 29, a millisecond apart, except for a gap left by compaction.
LOG = b"".join(
    batch([record(i, b"k%d" % (first + i), b"x") for i in range(5) if i != 2], first, codec=codec)
    for first, codec in zip(range(0, 30, 5), [0, 1, 0, 3, 0, 4], strict=True)
)
MESSAGES = message_set.encode(
    [Message(i, b"k%d" % i, b"x", timestamp=1000 + i, magic=i % 2) for i in range(10)]
) + wrapper([Message(i, b"k%d" % i, timestamp=1010 + i) for i in range(10)], offset=19)
bounds = st.none() | st.integers(-3, 40)


@pytest.mark.parametrize("data", [LOG, MESSAGES], ids=["batches", "messages"])
@given(minimum=bounds, maximum=bounds)
@settings(max_examples=150, deadline=None)
def test_offsets_are_kept_between_inclusive_bounds(
    data: bytes, minimum: int | None, maximum: int | None
) -> None:
    assert decode(data, min_offset=minimum, max_offset=maximum) == [
        row
        for row in decode(data)
        if (minimum is None or row.offset >= minimum) and (maximum is None or row.offset <= maximum)
    ]


@pytest.mark.parametrize(
    ("data", "zero"), [(LOG, TIMESTAMP), (MESSAGES, 1000)], ids=["batches", "messages"]
)
@given(minimum=bounds, maximum=bounds)
@settings(max_examples=150, deadline=None)
def test_timestamps_are_kept_between_inclusive_bounds(
    data: bytes, zero: int, minimum: int | None, maximum: int | None
) -> None:
    least = None if minimum is None else zero + minimum
    greatest = None if maximum is None else zero + maximum

    assert decode(data, min_timestamp=least, max_timestamp=greatest) == [
        row
        for row in decode(data)
        if (least is None or row.timestamp >= least)
        and (greatest is None or row.timestamp <= greatest)
    ]


def test_with_log_append_time_the_batchs_time_is_compared() -> None:
    data = some(3, attributes=LOG_APPEND_TIME, max_timestamp=5)

    assert offsets(data, min_timestamp=5, max_timestamp=5) == [0, 1, 2]
    assert offsets(data, min_timestamp=6) == []
    assert offsets(data, max_timestamp=4) == []


def test_bounds_may_be_any_64_bit_integer() -> None:
    least, greatest = -(2**63), 2**63 - 1

    assert offsets(some(3), min_offset=least, max_offset=greatest) == [0, 1, 2]
    assert offsets(some(3), min_offset=greatest) == []
    assert offsets(some(3), max_timestamp=least) == []


def test_the_end_position_is_that_of_the_input_whatever_is_kept() -> None:
    columns = decode_columns(LOG + LOG[:30], max_offset=-1)

    assert (len(columns), columns.end) == (0, len(LOG))


def test_a_batch_outside_the_bounds_is_not_decompressed_nor_its_crc_computed() -> None:
    damaged = some(3, 10, codec=GZIP, crc=7)

    assert offsets(some(3) + damaged, max_offset=9) == [0, 1, 2]
    assert offsets(damaged + some(3, 13), min_offset=13) == [13, 14, 15]


# ---- keys ----------------------------------------------------------------------------------------

KEYS = [None, b"", b"a", b"ab", b"abc", b"b", b"ba", b"\xff" * 40, b"a", None]
KEYED = batch([record(i, key) for i, key in enumerate(KEYS)])


@pytest.mark.parametrize("codec", [0, *CODECS])
@given(prefix=st.sampled_from([b"", b"a", b"ab", b"abcd", b"b", b"\xff", b"\xff" * 41, b"c"]))
@settings(max_examples=20, deadline=None)
def test_a_prefix_keeps_the_keys_that_begin_with_it(codec: int, prefix: bytes) -> None:
    data = batch([record(i, key) for i, key in enumerate(KEYS)], codec=codec)

    assert contents_of(decode_columns(data, key_filter=prefix), "key") == [
        key for key in KEYS if key is not None and key.startswith(prefix)
    ]


@given(wanted=st.sets(st.sampled_from(KEYS[1:-1]) | st.binary(max_size=3)))
@settings(max_examples=100, deadline=None)
def test_a_set_keeps_the_keys_in_it(wanted: set[bytes]) -> None:
    assert contents_of(decode_columns(KEYED, key_filter=wanted), "key") == [
        key for key in KEYS if key in wanted
    ]


def test_a_set_may_be_any_iterable_of_any_size() -> None:
    many = [b"key-%d" % i for i in range(5000)]
    data = batch([record(i, key) for i, key in enumerate(many)])
    wanted = random.Random(5).sample(many, 1000)

    found = contents_of(decode_columns(data, key_filter=iter(wanted * 2)), "key")

    assert found == [key for key in many if key in set(wanted)]


def test_an_empty_set_keeps_nothing() -> None:
    assert offsets(KEYED, key_filter=[]) == []


def test_an_empty_prefix_keeps_every_key_that_is_not_null() -> None:
    assert offsets(KEYED, key_filter=b"") == list(range(1, 9))


def test_keys_of_messages_are_filtered_too() -> None:
    assert offsets(MESSAGES, key_filter={b"k3", b"k15"}) == [3, 13]
    assert offsets(MESSAGES, key_filter=b"k5", min_offset=6) == [15]


def test_a_key_filter_and_bounds_apply_together() -> None:
    assert offsets(LOG, key_filter=b"k1", min_offset=11, max_timestamp=TIMESTAMP + 3) == [
        11,
        13,
        15,
        16,
        18,
    ]


def test_columns_need_not_be_requested_to_be_filtered_by() -> None:
    columns = decode_columns(KEYED, columns=["value"], key_filter=[b"a"], min_offset=5)

    assert len(columns) == 1


def test_a_prefix_beyond_2_gib_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="bytes"):
        decode_columns(KEYED, key_filter=bytes(2**31))


# ---- transactions --------------------------------------------------------------------------------


class Step(NamedTuple):
    """The actions of a producer in log order: records, or the end of a transaction."""

    producer: int
    kind: str


def log_of(steps: list[Step]) -> tuple[bytes, list[int], list[tuple[int, int]]]:
    """Return the log, the offsets of committed records, and the aborted transactions."""
    offset = 0
    parts = []
    open_since: dict[int, list[int]] = {}
    committed, aborted = [], []
    for producer, kind in steps:
        if kind == "plain":
            parts.append(some(2, offset, producer_id=producer))
            committed += [offset, offset + 1]
            offset += 2
        elif kind == "records":
            parts.append(some(2, offset, producer_id=producer, attributes=TRANSACTIONAL))
            open_since.setdefault(producer, []).extend([offset, offset + 1])
            offset += 2
        else:
            parts.append(marker(producer, offset, is_commit=kind == "commit"))
            mine = open_since.pop(producer, [])
            if kind == "commit":
                committed += mine
            elif mine:
                aborted.append((producer, mine[0]))
            offset += 1
    for mine in open_since.values():  # open ones are above the last stable offset
        committed += mine
    return b"".join(parts), sorted(committed), aborted


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, 3),
        st.sampled_from(["records", "records", "plain", "commit", "abort"]),
    ),
    max_size=20,
)


@given(steps=steps, seed=st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_records_of_aborted_transactions_are_omitted(
    steps: list[Step], seed: random.Random
) -> None:
    data, committed, aborted = log_of(steps)
    seed.shuffle(aborted)

    assert offsets(data, aborted=aborted) == committed


@given(steps=steps)
@settings(max_examples=50, deadline=None)
def test_without_a_list_of_aborted_transactions_all_records_are_kept(steps: list[Step]) -> None:
    data, committed, aborted = log_of(steps)

    everything = offsets(data)

    assert set(everything) >= set(committed)
    assert len(everything) == 2 * sum(step.kind in {"records", "plain"} for step in steps)
    assert offsets(data, aborted=[]) == everything
    assert (len(everything) > len(committed)) == bool(aborted)


def test_transactions_that_begin_after_the_data_omit_nothing() -> None:
    data, committed, aborted = log_of([Step(1, "records"), Step(1, "abort"), Step(1, "records")])
    later = [(1, 100 + i) for i in range(1000)]

    assert offsets(data, aborted=[*later, *aborted]) == committed


def test_records_committed_by_a_producer_after_an_abort_are_kept() -> None:
    data, committed, aborted = log_of(
        [Step(1, "records"), Step(1, "abort"), Step(1, "records"), Step(1, "commit")]
    )

    assert offsets(data, aborted=aborted) == committed == [3, 4]


def test_only_an_abort_ends_an_aborted_transaction() -> None:
    data = (
        some(1, 0, producer_id=1, attributes=TRANSACTIONAL)
        + marker(1, 1, is_commit=True)
        + some(1, 2, producer_id=1, attributes=TRANSACTIONAL)
        + marker(1, 3, is_commit=False)
        + some(1, 4, producer_id=1, attributes=TRANSACTIONAL)
    )

    assert offsets(data, aborted=[(1, 0)]) == [4]


def test_a_transaction_that_began_before_the_data_is_omitted_too() -> None:
    data = some(2, 10, producer_id=1, attributes=TRANSACTIONAL) + marker(1, 12, is_commit=False)

    assert offsets(data, aborted=[(1, 5)]) == []


def test_an_abort_is_applied_even_if_its_batch_is_outside_the_bounds() -> None:
    data, _, aborted = log_of(
        [Step(1, "records"), Step(1, "abort"), Step(1, "records"), Step(1, "commit")]
    )

    assert offsets(data, aborted=aborted, min_offset=3) == [3, 4]
    assert offsets(data, aborted=aborted, max_offset=2) == []


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\0\1\0\0", b"\0\0\0\0\0"])
def test_a_marker_is_recognized_by_the_type_in_its_key(key: bytes | None) -> None:
    end = batch([Record(0, 0, key, None, [])], 1, attributes=CONTROL, producer_id=1)
    data = (
        some(1, 0, producer_id=1, attributes=TRANSACTIONAL)
        + end
        + some(1, 2, producer_id=1, attributes=TRANSACTIONAL)
    )
    is_abort = key is not None and len(key) >= 4 and key[2:4] == b"\0\0"

    assert offsets(data, aborted=[(1, 0)]) == ([2] if is_abort else [])


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_of_aborted_transactions_are_not_decompressed(codec: int) -> None:
    data = some(50, 0, codec=codec, producer_id=1, attributes=TRANSACTIONAL)

    assert offsets(data + some(1, 50, codec=codec), aborted=[(1, 0)], bytes_max=100) == [50]


def test_an_aborted_batch_with_a_wrong_crc_is_an_error_too() -> None:
    data = some(2, producer_id=1, attributes=TRANSACTIONAL, crc=7)

    with pytest.raises(Corrupt, match="a CRC that does not fit"):
        decode_columns(data, aborted=[(1, 0)])


@pytest.mark.parametrize("attributes", [CONTROL, CONTROL | LOG_APPEND_TIME, 0])
def test_messages_without_producers_are_never_aborted(attributes: int) -> None:
    data = Message(0, attributes=attributes).encode() + Message(1, attributes=attributes).encode()

    assert offsets(data, aborted=[(-1, 0)]) == [0, 1]


def test_batches_without_a_producer_are_never_aborted() -> None:
    data = some(2, attributes=TRANSACTIONAL)

    assert offsets(data, aborted=[(-1, 0)]) == [0, 1]
