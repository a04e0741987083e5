"""The memory limit of a process, from its control groups."""

from pathlib import Path

import pytest

from broker.server.memory import memory_bytes

MIB = 1 << 20


def made(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("line", "folder", "name"),
    [
        ("0::/a/b", "", "memory.max"),
        ("7:memory:/a/b", "memory", "memory.limit_in_bytes"),
        ("7:cpu,memory:/a/b", "memory", "memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_of_the_control_groups_applies(
    tmp_path: Path, line: str, folder: str, name: str
) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text(f"3:pids:/\n{line}\n")
    root = tmp_path / "mount" / folder
    unlimited = memory_bytes(proc, tmp_path / "mount")

    made(root / "a" / "b", name, f"{300 * MIB}\n")
    assert memory_bytes(proc, tmp_path / "mount") == 300 * MIB
    made(root / "a", name, f"{200 * MIB}\n")
    assert memory_bytes(proc, tmp_path / "mount") == 200 * MIB
    made(root / "a", name, "max\n")
    made(root / "a" / "b", name, f"{1 << 62}\n")
    assert memory_bytes(proc, tmp_path / "mount") == unlimited


def test_without_control_groups_the_machines_memory_applies(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "none", tmp_path) > 64 * MIB
