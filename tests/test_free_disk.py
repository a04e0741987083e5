"""A run of tests needs a disk on which brokers keep all records."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.core.maintenance.disk_space import Space
from tests.support.free_disk import GIB, problem, space_of
from tests.support.small_disk import small_disk

OTHERS = str(Path(__file__).with_name("test_slow_tests.py"))
TIMEOUT_S = 60


@pytest.mark.parametrize(
    ("free", "free_files", "is_enough"),
    [
        (11 * GIB, 1_000_000, True),
        (9 * GIB, 1_000_000, False),  # 8 of them are those at which brokers remove old records
        (11 * GIB, 1_050, False),
        (0, 0, False),
    ],
)
def test_what_tests_will_write_must_fit_above_the_level_at_which_records_are_removed(
    free: int, free_files: int, *, is_enough: bool
) -> None:
    space = Space(100 * GIB, free, 10_000_000, free_files)

    assert (problem(space, bytes_left=2 * GIB, files_left=100) is None) is is_enough


def test_a_file_system_without_a_count_of_files_is_judged_by_its_bytes() -> None:
    assert problem(Space(100 * GIB, 50 * GIB, 0, 0), bytes_left=GIB, files_left=100) is None


def test_the_space_of_a_folder_that_does_not_exist_is_that_of_its_disk(tmp_path: Path) -> None:
    assert space_of(tmp_path / "a" / "b").total_bytes == space_of(tmp_path).total_bytes


def test_a_run_on_a_disk_without_enough_space_ends_before_its_first_test(tmp_path: Path) -> None:
    with small_disk(tmp_path, "tmpfs", 64 << 20) as disk:
        command = [sys.executable, "-m", "pytest", OTHERS, "--basetemp", str(disk / "tests")]
        ended = subprocess.run(
            command,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "0.1 of 0.1 GiB" in ended.stderr
    assert "remove old records" in ended.stderr
    assert "passed" not in ended.stdout
