"""The plan that a start makes from the file names of a partition's folder."""

import pytest

from broker.segments.names import file_name, offsets_of
from broker.storage.files.folder_plan import plan_folder

SEGMENTS = [
    file_name(base, suffix) for base in (0, 10, 20) for suffix in (".log", ".index", ".timeindex")
]


def test_segments_and_snapshots_are_recognized_by_their_names() -> None:
    plan = plan_folder([*SEGMENTS, file_name(20, ".snapshot"), "partition.metadata"], 0)

    assert plan == ([0, 10, 20], [20], [], [], [])


@pytest.mark.parametrize(
    "name",
    [
        file_name(0, ".log.deleted"),
        file_name(0, ".timeindex.deleted"),
        file_name(10, ".log.cleaned"),
        file_name(20, ".snapshot.tmp"),
        "leader-epoch-checkpoint.tmp",
    ],
)
def test_unfinished_files_of_an_earlier_run_are_removed(name: str) -> None:
    assert plan_folder([*SEGMENTS, name], 0) == ([0, 10, 20], [], [], [], [name])


@pytest.mark.parametrize(
    ("log_start", "kept"), [(0, [0, 10, 20]), (9, [0, 10, 20]), (10, [10, 20]), (19, [10, 20])]
)
def test_segments_entirely_below_the_log_start_are_removed(log_start: int, kept: list[int]) -> None:
    plan = plan_folder(SEGMENTS, log_start)

    assert plan.base_offsets == kept
    assert offsets_of(plan.removed, ".log") == [base for base in (0, 10, 20) if base not in kept]
    assert len(plan.removed) == 3 * (3 - len(kept))


@pytest.mark.parametrize(
    ("log_start", "believed"), [(0, [7, 10, 20]), (10, [10, 20]), (15, [10, 20])]
)
def test_a_snapshot_followed_by_missing_records_is_not_used(
    log_start: int, believed: list[int]
) -> None:
    """Otherwise a transaction open in it would stay open: its marker may have been among them."""
    snapshots = [file_name(offset, ".snapshot") for offset in (7, 10, 20)]

    assert plan_folder([*SEGMENTS, *snapshots], log_start).snapshot_offsets == believed


@pytest.mark.parametrize("suffix", [".digest", ".damage"])
@pytest.mark.parametrize(("base", "why"), [(20, "it may be written to again"), (15, "no log")])
def test_digest_and_damage_files_of_other_than_closed_segments_are_removed(
    base: int, why: str, suffix: str
) -> None:
    stays, goes = file_name(10, suffix), file_name(base, suffix)

    assert plan_folder([*SEGMENTS, stays, goes], 0).removed == [goes], why


def test_recorded_damage_counts_only_for_segments_that_stay_closed() -> None:
    names = [*SEGMENTS, *(file_name(base, ".damage") for base in (0, 10, 20))]

    assert plan_folder(names, 10).damaged_offsets == [10]


def test_a_digest_is_removed_with_its_segment() -> None:
    plan = plan_folder([*SEGMENTS, file_name(0, ".digest")], 10)

    assert plan.removed.count(file_name(0, ".digest")) == 1


def test_the_active_segment_stays_whatever_the_log_start() -> None:
    assert plan_folder(SEGMENTS, 1_000).base_offsets == [20]


def test_a_segment_set_aside_is_not_part_of_the_log() -> None:
    plan = plan_folder([*SEGMENTS, file_name(30, ".log-stray")], 0)

    assert plan == ([0, 10, 20], [], [], [], [])
