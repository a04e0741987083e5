"""Consecutive records become batches (protocols/rustlog/record_run)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.rustlog.record_run import RunBatches, check_run
from broker.codec import encode, records
from broker.model.errors import LimitExceeded
from broker.model.limits import RUN_RECORDS_PER_BATCH

VALUES = st.lists(st.binary(max_size=100), min_size=1, max_size=50)


def run_of(values: list[bytes]) -> bytes:
    """Return records with their lengths."""
    return b"".join(len(each).to_bytes(4) + each for each in values)


def batches_of(values: list[bytes], bytes_max: int = 1 << 20) -> list[bytes]:
    """Return the batches of a run."""
    run = run_of(values)
    made = RunBatches(b"xx" + run, 2, len(values), batch_bytes_max=bytes_max, timestamp_ms=3)
    found = []
    while (batch := made.next()) is not None:
        found.append(batch)
    assert made.payload_bytes == sum(map(len, values))
    return found


@given(VALUES)
def test_records_that_fit_become_one_batch_as_the_codec_makes_it(values: list[bytes]) -> None:
    assert batches_of(values) == encode(values, timestamp_ms=3, base_offset=0)


@given(VALUES, st.integers(200, 1000))
def test_no_batch_exceeds_the_limit_and_no_record_is_lost(
    values: list[bytes], bytes_max: int
) -> None:
    batches = batches_of(values, bytes_max)

    assert max(map(len, batches)) <= bytes_max
    assert [each.value for batch in batches for each in records(batch)] == values
    assert [len(each) for each in batches] == [
        len(each) for each in encode(values, batch_bytes_max=bytes_max, timestamp_ms=3)
    ]


def test_a_batch_may_be_exactly_as_large_as_the_limit() -> None:
    [batch] = batches_of([bytes(100)])

    assert batches_of([bytes(100)], len(batch)) == [batch]
    with pytest.raises(LimitExceeded):
        batches_of([bytes(100)], len(batch) - 1)


def test_very_many_records_become_several_batches() -> None:
    values = [b""] * (RUN_RECORDS_PER_BATCH + 1)

    counts = [len(list(records(each))) for each in batches_of(values, 1 << 30)]

    assert counts == [RUN_RECORDS_PER_BATCH, 1]


@given(VALUES, st.data())
def test_a_truncated_run_is_distinguished_from_a_whole_one(
    values: list[bytes], data: st.DataObject
) -> None:
    run = run_of(values)
    size = data.draw(st.integers(0, len(run) - 1))

    assert check_run(run, 0, len(values)) is None
    assert check_run(run + b"more", 0, len(values)) is None
    assert check_run(run[:size], 0, len(values)) in ("length", "record")


def test_a_count_above_the_available_bytes_is_refused() -> None:
    assert check_run(b"", 0, 0) is None
    assert check_run(b"", 0, 2**32 - 1) == "length"
    assert check_run(b"\xff\xff\xff\xff", 0, 1) == "record"
