"""Offsets of groups that are kept for an undo."""

from pathlib import Path

import pytest

from broker.cli.group import saved_offsets
from broker.model.errors import ConfigError

OFFSETS: dict[tuple[str, int], int | None] = {("b", 1): 7, ("a", 0): None}


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_saved_offsets_are_lines_as_kafkas_tool_exports_them() -> None:
    file = saved_offsets.save("cluster", "g", OFFSETS)

    assert file.read_text() == "a,0,-1\nb,1,7\n"
    assert saved_offsets.read(file) == OFFSETS
    assert saved_offsets.newest("cluster", "g") == file


def test_only_the_newest_files_of_a_group_are_kept() -> None:
    files = [saved_offsets.save("cluster", "g", OFFSETS) for _ in range(22)]

    assert files == sorted(set(files)), "each has a name after those before"
    kept = sorted(saved_offsets.folder_of("cluster", "g").glob("*"))
    assert kept == files[-saved_offsets.SAVED_OFFSETS_MAX :]


@pytest.mark.parametrize("name", ["..", "a/../../b", "x" * 300, "ü/", "\udcff"])
def test_names_of_groups_do_not_leave_the_folder(name: str, state_home: Path) -> None:
    file = saved_offsets.save("../c", name, OFFSETS)

    assert file.resolve().is_relative_to(state_home / "polylog" / "offsets")
    assert saved_offsets.newest("../c", name) == file


def test_groups_and_clusters_have_their_own_files() -> None:
    saved_offsets.save("one", "g", OFFSETS)

    assert saved_offsets.newest("two", "g") is None
    assert saved_offsets.newest("one", "h") is None


def test_long_names_that_differ_in_the_middle_have_their_own_files() -> None:
    saved_offsets.save("one", "x" * 200 + "1" + "x" * 200, OFFSETS)

    assert saved_offsets.newest("one", "x" * 200 + "2" + "x" * 200) is None


@pytest.mark.parametrize("line", ["a,0", "a,x,1", "a,0,-2", "a,-1,0", ",0,1", "a,0,1,2"])
def test_an_invalid_line_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"# a comment\nok,0,1\n{line}\n")

    with pytest.raises(ConfigError, match="line 3: expected TOPIC,PARTITION,OFFSET"):
        saved_offsets.read(file)


def test_a_line_that_is_too_long_for_a_field_is_named(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"ok,0,1\n{'x' * (1 << 18)},0,1\n")

    with pytest.raises(ConfigError, match="line 2: field larger"):
        saved_offsets.read(file)
