"""Enough free space on the disk of the tests, checked before the first of them.

A broker whose disk is nearly full removes expired segments at once and then refuses records
(core/maintenance/disk_space.py). The records of many tests are years old: they would be gone, and
the test that misses them would not say why.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from broker.core.maintenance.disk_space import DiskSpace, Level, Space, bound_bytes, whole_reserve

GIB = 1 << 30
# What tests of a run and their brokers have at a time, at most: folders of those that passed are
# removed.
RUN_BYTES = 4 * GIB
RUN_FILES = 100_000


def space_of(place: Path) -> Space:
    """Return the space of the file system of a folder, or of where it will be."""
    while not place.exists():
        place = place.parent
    found = os.statvfs(place)
    unit = found.f_frsize
    return Space(found.f_blocks * unit, found.f_bavail * unit, found.f_files, found.f_favail)


def problem(space: Space, *, bytes_left: int, files_left: int) -> str | None:
    """Return why brokers would not keep all records if tests still write so much; None if not."""
    total, free, files, free_files = space
    left = Space(total, free - bytes_left, files, free_files - files_left)
    level = DiskSpace().look(left, whole_reserve(total), has_failed=False).level
    if level < Level.TRIM:
        return None
    bound = bound_bytes(Level.TRIM, total)
    return (
        f"{free / GIB:.1f} of {total / GIB:.1f} GiB and {free_files} files are free; "
        f"{(bound + bytes_left) / GIB:.1f} GiB and {files_left} files are needed, because brokers "
        f"with less than {bound / GIB:.1f} GiB remove old records, which tests then miss"
    )


def place_of(config: pytest.Config) -> Path:
    """Return the folder in which pytest makes the folders of tests."""
    given = config.option.basetemp or os.environ.get("PYTEST_DEBUG_TEMPROOT")
    return Path(given or tempfile.gettempdir()).absolute()


def pytest_sessionstart(session: pytest.Session) -> None:
    """End the run before its first test; UsageError says how much space is needed and why."""
    if hasattr(session.config, "workerinput"):
        return  # its controller has checked
    place = place_of(session.config)
    found = problem(space_of(place), bytes_left=RUN_BYTES, files_left=RUN_FILES)
    if found is not None:
        raise pytest.UsageError(
            f"{place}: {found}. Free some space, or name a folder of another disk: --basetemp"
        )


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say beside failures that other programs have filled the disk meanwhile."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        place = place_of(config)
        found = problem(space_of(place), bytes_left=0, files_left=0)
        if found is not None:
            terminalreporter.write_line(f"{place}: {found}: this may be why tests have failed")
