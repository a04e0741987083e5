"""A file system of its own for a test: small, so that it fills up soon. Needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kind: str, size: int, *, inodes: int | None = None) -> Iterator[Path]:
    """Mount a disk of `size` bytes, on tmpfs or as ext4 in a file; skip if that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    place = folder / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if kind == "ext4":
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(size)
        count = [] if inodes is None else ["-N", str(inodes)]
        _run(["mkfs.ext4", "-q", "-F", "-m", "0", *count, str(image)])
        command = ["mount", "-o", "loop", str(image), str(place)]
    _run(command)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # noqa: S607


def fill_up(file: Path) -> None:
    """Fill a disk to its last byte."""
    for size in (1 << 20, 1 << 12, 1):
        with suppress(OSError), file.open("ab", buffering=0) as other:
            while True:
                other.write(b"x" * size)
        os.sync()  # space that the file system has only reserved


def _run(command: list[str]) -> None:
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{error.filename} is not installed")
    if found.returncode != 0:
        pytest.skip(f"{command[0]} is not possible here: {found.stderr.strip()}")
