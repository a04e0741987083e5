"""Committed offsets are mapped with the records that they refer to."""

from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.importing.offset_map import OffsetMap


def map_of(*sources: int) -> OffsetMap:
    offset_map = OffsetMap()
    for source in sources:
        offset_map.add(source)
    return offset_map


def test_a_log_from_0_without_gaps_keeps_its_offsets() -> None:
    offset_map = map_of(0, 1, 2)

    assert offset_map.is_same
    assert [offset_map.translate(offset) for offset in range(4)] == [0, 1, 2, 3]


def test_a_log_whose_beginning_is_missing_is_shifted_to_0() -> None:
    offset_map = map_of(100, 101)

    assert not offset_map.is_same
    assert offset_map.first_source == 100
    assert [offset_map.translate(offset) for offset in (0, 99, 100, 101, 102)] == [0, 0, 0, 1, 2]


def test_an_offset_after_the_last_record_maps_to_the_end() -> None:
    assert map_of(0, 1).translate(1_000) == 2


def test_without_records_every_offset_maps_to_0() -> None:
    offset_map = OffsetMap()

    assert offset_map.is_same
    assert offset_map.first_source is None
    assert offset_map.translate(7) == 0


def test_a_repeated_offset_is_reported_and_keeps_its_first_mapping() -> None:
    offset_map = map_of(0, 1)

    assert not offset_map.add(1)
    assert offset_map.add(2)

    assert not offset_map.is_same
    assert offset_map.count == 4
    assert [offset_map.translate(offset) for offset in (1, 2, 3)] == [1, 3, 4]


@given(st.sets(st.integers(0, 60)), st.integers(0, 70))
def test_an_offset_maps_to_the_number_of_records_before_it(sources: set[int], offset: int) -> None:
    offset_map = map_of(*sorted(sources))

    assert offset_map.translate(offset) == sum(source < offset for source in sources)
    assert offset_map.is_same == (sources == set(range(len(sources))))
