"""Ranges of offsets to tasks, and the limits of a trigger."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broker.client.fetch import Range
from broker.client.metadata import Partition
from broker.pipeline.source.planning import (
    limited,
    limited_by_bytes,
    losses,
    shared,
    split,
)

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)
OFFSETS = st.integers(0, 1 << 40)


def ranges_of(sizes: list[int]) -> list[Range]:
    return [Range("t", "", each, 100 * each, 100 * each + size) for each, size in enumerate(sizes)]


def keyed(numbers: list[int]) -> dict[Partition, int]:
    return {("t", each): number for each, number in enumerate(numbers)}


@given(SIZES, st.none() | st.integers(1, 50), st.none() | st.integers(1, 5000))
def test_the_tasks_cover_every_offset_once(
    sizes: list[int], min_partitions: int | None, records_max: int | None
) -> None:
    assume(not records_max or sum(sizes) // records_max < 5000)
    tasks = split(ranges_of(sizes), min_partitions, records_max)

    for whole in ranges_of(sizes):
        own = sorted(each for each in tasks if each.partition == whole.partition)
        starts, ends = [each.start for each in own], [each.end for each in own]
        assert [whole.start, *ends] == ([*starts, whole.end] if own else [whole.start])
    assert all(each.end > each.start for each in tasks)


@pytest.mark.parametrize(
    ("sizes", "records_max", "found"),
    [
        ([1, 1, 1], None, [3]),
        ([1999, 1, 1], None, [2, 1]),
        ([5000, 1, 1, 5000, 1], None, [1, 2, 1, 1]),
        ([1, 1, 1], 2, [2, 1]),
        ([], None, []),
    ],
)
def test_small_ranges_share_a_task(
    sizes: list[int], records_max: int | None, found: list[int]
) -> None:
    tasks = shared(ranges_of(sizes), records_max)

    assert [len(each) for each in tasks] == found
    assert [part for each in tasks for part in each] == ranges_of(sizes)


@given(SIZES, st.integers(1, 5000))
def test_no_task_has_more_records_than_the_limit(sizes: list[int], records_max: int) -> None:
    assume(sum(sizes) // records_max < 5000)

    assert all(
        each.end - each.start <= records_max for each in split(ranges_of(sizes), None, records_max)
    )


@pytest.mark.parametrize(
    ("sizes", "min_partitions", "count"),
    [
        ([100, 100, 100], None, 3),
        ([100, 100, 100], 2, 3),
        ([100, 100, 100], 6, 6),
        ([100, 100, 100], 7, 6),  # two each, by rounding: as in Spark's source
        ([1000, 10], 10, 11),
        ([1, 1], 10, 2),
        ([0, 0], 10, 0),
    ],
)
def test_large_ranges_are_split_first(sizes: list[int], min_partitions: int, count: int) -> None:
    assert len(split(ranges_of(sizes), min_partitions, None)) == count


@given(SIZES, st.integers(1, 200_000))
def test_a_limit_is_kept_except_for_one_offset_per_partition(sizes: list[int], limit: int) -> None:
    begins, ends = keyed([7] * len(sizes)), keyed([7 + size for size in sizes])
    reached = limited(begins, ends, limit)

    assert all(begins[each] <= reached[each] <= ends[each] for each in ends)
    read = sum(reached[each] - begins[each] for each in ends)
    assert read <= limit + len(sizes)
    assert all(reached[each] > begins[each] for each in ends if ends[each] > begins[each])
    if sum(sizes) <= limit:
        assert reached == ends


def test_a_limit_is_divided_in_proportion_to_the_waiting_records() -> None:
    assert limited(keyed([0, 0, 0]), keyed([600, 300, 100]), 100) == keyed([60, 30, 10])
    assert limited(keyed([0, 0]), keyed([99_999, 1]), 10) == keyed([9, 1])


@given(st.lists(st.integers(0, 300), min_size=1, max_size=9), st.integers(1, 500))
def test_repeated_triggers_read_everything(sizes: list[int], limit: int) -> None:
    begins, ends = keyed([0] * len(sizes)), keyed(sizes)
    for _ in range(max(sizes)):  # each reads one offset per partition at least
        begins = limited(begins, ends, limit)

    assert begins == ends


@given(SIZES, st.integers(1, 200_000))
def test_offsets_never_decrease_when_a_log_got_shorter(sizes: list[int], limit: int) -> None:
    begins, ends = keyed([20_000] * len(sizes)), keyed(sizes)

    assert limited(begins, ends, limit) == begins
    assert limited_by_bytes(begins, ends, dict.fromkeys(ends, 10.0), limit) == begins


@given(SIZES, st.floats(0.1, 1e6), st.integers(1, 10_000_000))
def test_a_limit_of_bytes_is_kept_except_for_one_offset_per_partition(
    sizes: list[int], bytes_per_offset: float, limit: int
) -> None:
    begins, ends = keyed([7] * len(sizes)), keyed([7 + size for size in sizes])
    reached = limited_by_bytes(begins, ends, dict.fromkeys(ends, bytes_per_offset), limit)

    read = sum(reached[each] - begins[each] for each in ends)
    assert read * bytes_per_offset <= limit + len(sizes) * bytes_per_offset * 1.001
    assert all(begins[each] <= reached[each] <= ends[each] for each in ends)
    assert all(reached[each] > begins[each] for each in ends if ends[each] > begins[each])


def test_large_records_use_up_more_of_a_limit_of_bytes() -> None:
    sizes = {("t", 0): 1000.0, ("t", 1): 10.0}

    assert limited_by_bytes(keyed([0, 0]), keyed([100, 100]), sizes, 50_500) == keyed([50, 50])


def test_missing_offsets_are_reported_by_partition() -> None:
    begins = keyed([5, 15, 25, 10, 20])
    said = losses(begins, keyed([10] * 5), keyed([20] * 5))

    assert said == [
        (
            "t-0: expected offset 5, there are 10 to 20:"
            " retention or DeleteRecords removed those before"
        ),
        "t-2: expected offset 25, there are 10 to 20",
    ]
