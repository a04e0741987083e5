"""Levels of disk space: when each begins and ends, and the size of the reserve."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.maintenance.disk_space import (
    DiskSpace,
    Level,
    Space,
    bound_bytes,
    last_reserve,
    whole_reserve,
)
from broker.model.limits import DISK_HOLD_LOOKS_MAX

MIB = 1 << 20
GIB = 1 << 30
DISKS = (64 * MIB, 10 * GIB, 10_000 * GIB)
each_disk = pytest.mark.parametrize("total", DISKS)


def space(total: int, free: int, *, inodes: int = 0, free_inodes: int = 0) -> Space:
    return Space(total, free, inodes, free_inodes)


def level_of(total: int, free: int) -> Level:
    """The level of a disk that is looked at for the first time, with its reserve."""
    return DiskSpace().look(space(total, free), whole_reserve(total), has_failed=False).level


@each_disk
@pytest.mark.parametrize("level", list(Level)[1:])
def test_a_level_begins_below_its_bound(total: int, level: Level) -> None:
    bound = bound_bytes(level, total)

    assert level_of(total, bound) < level
    assert level_of(total, bound - 1) == level


def test_the_bounds_are_shares_of_the_disk_with_an_upper_limit() -> None:
    levels = (Level.LOW, Level.TRIM, Level.REFUSE, Level.READ_ONLY)

    assert [bound_bytes(level, 100 * MIB) // MIB for level in levels] == [15, 8, 5, 2]
    assert [bound_bytes(level, 100_000 * GIB) for level in levels[2:]] == [GIB, 400 * MIB]
    assert (whole_reserve(64 * MIB), last_reserve(64 * MIB)) == (4 * MIB, MIB // 2)
    assert (whole_reserve(10_000 * GIB), last_reserve(10_000 * GIB)) == (64 * MIB, 8 * MIB)


@each_disk
@pytest.mark.parametrize("level", list(Level)[1:])
def test_a_level_is_left_at_a_quarter_above_its_bound(total: int, level: Level) -> None:
    bound, whole = bound_bytes(level, total), whole_reserve(total)
    disk = DiskSpace()
    disk.look(space(total, bound - 1), whole, has_failed=False)

    disk.look(space(total, bound + bound // 8), whole, has_failed=False)
    assert disk.level is level

    disk.look(space(total, bound + bound // 4 + 1), whole, has_failed=False)
    assert disk.level < level


@each_disk
def test_releasing_the_reserve_does_not_look_like_free_space(total: int) -> None:
    disk, free = DiskSpace(), bound_bytes(Level.REFUSE, total) - 1
    observation = disk.look(space(total, free), whole_reserve(total), has_failed=False)
    assert observation == (Level.REFUSE, last_reserve(total))

    free += whole_reserve(total) - observation.reserve_bytes
    again = disk.look(space(total, free), observation.reserve_bytes, has_failed=False)

    assert again == observation


def test_released_reserve_is_used_before_the_disk_counts_as_read_only() -> None:
    total = 64 * MIB
    disk, free = DiskSpace(), bound_bytes(Level.REFUSE, total) - 1
    held = disk.look(space(total, free), whole_reserve(total), has_failed=False).reserve_bytes

    low = bound_bytes(Level.READ_ONLY, total)
    assert disk.look(space(total, low), held, has_failed=False) == (Level.REFUSE, held)
    assert disk.look(space(total, low - 1), held, has_failed=False) == (Level.READ_ONLY, 0)
    # The last of it is for deletes: it does not lead back.
    assert disk.look(space(total, low + held), 0, has_failed=False) == (Level.READ_ONLY, 0)


def test_the_reserve_is_recreated_when_there_is_space() -> None:
    total = 64 * MIB
    disk = DiskSpace()
    disk.look(space(total, 0), 0, has_failed=False)

    observation = disk.look(space(total, total // 2), 0, has_failed=False)

    assert observation == (Level.NORMAL, whole_reserve(total))


def test_after_a_write_without_space_writes_are_refused_until_the_next_check() -> None:
    disk, plenty = DiskSpace(), space(64 * MIB, 60 * MIB)

    assert disk.look(plenty, 4 * MIB, has_failed=True).level is Level.REFUSE
    assert disk.look(plenty, MIB // 2, has_failed=False).level is Level.NORMAL


def test_a_quota_invisible_to_checks_is_retried_less_and_less_often() -> None:
    disk, plenty = DiskSpace(), space(64 * MIB, 60 * MIB)
    levels = []
    for _ in range(600):
        tries = disk.level is Level.NORMAL  # a client writes as soon as it may
        levels.append(disk.look(plenty, 4 * MIB, has_failed=tries).level)

    changes = sum(one is not other for one, other in pairwise(levels))
    assert changes < 2 * 600 / DISK_HOLD_LOOKS_MAX + 10


def test_a_quota_that_was_lifted_is_gradually_forgotten() -> None:
    disk, plenty = DiskSpace(), space(64 * MIB, 60 * MIB)
    for _ in range(600):
        disk.look(plenty, 4 * MIB, has_failed=disk.level is Level.NORMAL)
    for _ in range(2 * DISK_HOLD_LOOKS_MAX):
        disk.look(plenty, 4 * MIB, has_failed=False)

    assert disk.look(plenty, 4 * MIB, has_failed=True).level is Level.REFUSE
    assert disk.look(plenty, 4 * MIB, has_failed=False).level is Level.NORMAL


def refused_checks(disk: DiskSpace) -> int:
    """Let a write fail while the disk looks free; return how many checks refuse records then."""
    plenty = space(64 * MIB, 60 * MIB)
    assert disk.look(plenty, 4 * MIB, has_failed=True).level is Level.REFUSE
    count = 1
    while disk.look(plenty, 4 * MIB, has_failed=False).level is Level.REFUSE:
        count += 1
    return count


def test_a_refusal_lasts_twice_as_long_as_the_last_less_a_check_per_check_without_failure() -> None:
    disk, plenty = DiskSpace(), space(64 * MIB, 60 * MIB)
    counts = []
    for checks_without_failure in (0, 0, 0, 1, 9):
        for _ in range(checks_without_failure):
            disk.look(plenty, 4 * MIB, has_failed=False)
        counts.append(refused_checks(disk))

    assert counts == [1, 2, 4, 6, 1]


def test_checks_of_a_disk_that_is_full_do_not_change_how_long_the_next_refusal_lasts() -> None:
    disk, full = DiskSpace(), space(64 * MIB, bound_bytes(Level.REFUSE, 64 * MIB) - 1)
    assert [refused_checks(disk), refused_checks(disk)] == [1, 2]

    for has_failed in (True, True, False, False):
        assert disk.look(full, 4 * MIB, has_failed=has_failed).level is Level.REFUSE
    disk.look(space(64 * MIB, 60 * MIB), 4 * MIB, has_failed=False)

    assert refused_checks(disk) == 4


@pytest.mark.parametrize(
    ("free", "level"),
    [
        (245, Level.NORMAL),
        (35, Level.LOW),
        (18, Level.TRIM),
        (11, Level.REFUSE),
        (3, Level.READ_ONLY),
    ],
)
def test_a_disk_without_inodes_counts_as_full(free: int, level: Level) -> None:
    little = space(GIB, GIB // 2, inodes=245, free_inodes=free)

    assert DiskSpace().look(little, 64 * MIB, has_failed=False).level is level


@given(
    total=st.sampled_from(DISKS),
    frees=st.lists(st.floats(0, 0.3), min_size=1, max_size=30),
    has_failed=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_for_any_usage_the_reserve_fits_and_the_level_settles(
    total: int, frees: list[float], has_failed: list[bool]
) -> None:
    disk, held = DiskSpace(), 0
    for share, found in zip(frees, has_failed, strict=False):
        free = max(0, int(share * total) - held)  # others take and give; ours is taken of it
        before = disk.level
        level, wanted = disk.look(space(total, free), held, has_failed=found)
        assert 0 <= wanted <= whole_reserve(total)
        assert wanted - held <= free  # it can be made
        if wanted > held:
            assert level < Level.REFUSE
        if level > before and not found:
            assert free < bound_bytes(level, total) + whole_reserve(total)
        free -= wanted - held
        held = wanted
        # Without other usage, and once free space is trusted again, one more check is the last that
        # changes anything: the released reserve may be enough for commits.
        for _ in range(DISK_HOLD_LOOKS_MAX):
            held_still = disk.look(space(total, free), held, has_failed=False)
            assert held_still.level <= level
            free -= held_still.reserve_bytes - held
            held = held_still.reserve_bytes
        settled = disk.look(space(total, free), held, has_failed=False)
        assert settled.level <= level
        assert settled.reserve_bytes == held or settled.level < Level.REFUSE
        free -= settled.reserve_bytes - held
        held = settled.reserve_bytes
        assert disk.look(space(total, free), held, has_failed=False) == settled
